package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state/table"
	"github.com/open-nomad/open-nomad/nomad/stream"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// applied applies one job registration for each index.
func applied(b *stream.Broker, from, to uint64) {
	for i := from; i <= to; i++ {
		b.Applied(i, message.JobRegisterRequestType, []table.Write{{Row: &nomad.Job{ID: fmt.Sprint("job-", i), Namespace: "default"}}})
	}
}

// index returns the index of the next entry, which must exist.
func index(t *testing.T, s *stream.Subscription) uint64 {
	t.Helper()
	batch, err := s.Next(t.Context())
	if err != nil {
		t.Fatalf("Next() = %v", err)
	}
	return batch.Index
}

func TestReplay(t *testing.T) {
	b := stream.New(10)
	applied(b, 101, 130)
	for from, want := range map[uint64]uint64{0: 121, 1: 121, 121: 121, 125: 125, 130: 130} {
		s := b.Subscribe(from)
		for ; want <= 130; want++ {
			if got := index(t, s); got != want {
				t.Fatalf("from %d: got the entry %d, want %d", from, got, want)
			}
		}
		s.Close()
	}
}

func TestWaitsForIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(10)
		applied(b, 1, 5)
		s := b.Subscribe(8)
		defer s.Close()
		got := make(chan uint64)
		go func() { got <- index(t, s) }()
		applied(b, 6, 7)
		synctest.Wait()
		select {
		case i := <-got:
			t.Fatalf("got the entry %d, want none before 8", i)
		default:
		}
		applied(b, 8, 8)
		if i := <-got; i != 8 {
			t.Errorf("got the entry %d, want 8", i)
		}
	})
}

func TestNextEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream.New(10).Subscribe(0)
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next() = %v, want context.DeadlineExceeded", err)
		}
	})
}

// A reader that keeps up gets every entry. A slow one gets ErrSlow, and the ring stays bounded.
func TestSlowSubscriberIsDropped(t *testing.T) {
	b := stream.New(4)
	slow, fast := b.Subscribe(0), b.Subscribe(0)
	defer fast.Close()
	const many = 20_000
	for i := uint64(1); i <= many; i++ {
		applied(b, i, i)
		if got := index(t, fast); got != i {
			t.Fatalf("got the entry %d, want %d", got, i)
		}
	}
	if _, err := slow.Next(t.Context()); !errors.Is(err, stream.ErrSlow) {
		t.Errorf("Next() = %v, want ErrSlow", err)
	}
	slow.Close()
	slow.Close() // a second Close has no effect
	fast.Close()
	later := b.Subscribe(0)
	defer later.Close()
	if got := index(t, later); got != many-3 {
		t.Errorf("the oldest entry is %d, want %d: four are kept", got, many-3)
	}
}

// A reader may pause without being dropped, even if the ring for new subscribers is small.
func TestReaderMayPause(t *testing.T) {
	b := stream.New(4)
	s := b.Subscribe(0)
	defer s.Close()
	applied(b, 1, 5000)
	for want := uint64(1); want <= 5000; want++ {
		if got := index(t, s); got != want {
			t.Fatalf("got the entry %d, want %d", got, want)
		}
	}
}

func TestRestoreEndsSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(10)
		waiting, behind := b.Subscribe(0), b.Subscribe(0)
		defer waiting.Close()
		defer behind.Close()
		ended := make(chan error)
		go func() {
			_, err := waiting.Next(t.Context())
			ended <- err
		}()
		synctest.Wait()
		b.Replaced()
		if err := <-ended; !errors.Is(err, stream.ErrReplaced) {
			t.Errorf("Next() = %v, want ErrReplaced", err)
		}
		applied(b, 3, 3) // the indexes restart
		if _, err := behind.Next(t.Context()); !errors.Is(err, stream.ErrReplaced) {
			t.Errorf("Next() = %v, want ErrReplaced", err)
		}
		after := b.Subscribe(0)
		defer after.Close()
		if got := index(t, after); got != 3 {
			t.Errorf("got the entry %d, want 3", got)
		}
	})
}

// Many goroutines write and read at once; each reader gets every entry once, in order.
func TestManyReaders(t *testing.T) {
	b := stream.New(100)
	const entries, readers = 2000, 8
	errs := make(chan error, readers)
	for range readers {
		s := b.Subscribe(0)
		go func() {
			defer s.Close()
			for want := uint64(1); want <= entries; want++ {
				batch, err := s.Next(t.Context())
				if err == nil && batch.Index != want {
					err = fmt.Errorf("got the entry %d, want %d", batch.Index, want)
				}
				if err == nil {
					_, err = batch.Events()[0].JSON()
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	applied(b, 1, entries)
	for range readers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestCommandsWithoutEvents(t *testing.T) {
	b := stream.New(10)
	b.Applied(1, message.EvalDeleteRequestType, []table.Write{{Row: &nomad.Job{ID: "web"}}})
	applied(b, 2, 2)
	s := b.Subscribe(0)
	defer s.Close()
	if got := index(t, s); got != 2 {
		t.Errorf("got the entry %d, want 2", got)
	}
}

// No event contains a secret.
func TestNoSecretInEvents(t *testing.T) {
	const canary = "c4n4ry-5ecret"
	rows := map[message.Topic]table.Write{
		message.TopicNode:       {Row: &nomad.Node{ID: "n", SecretID: canary, Session: &nomad.NodeSession{}}},
		message.TopicAllocation: {Row: &nomad.Allocation{ID: "a", SignedIdentities: map[string]string{"t": canary}, Job: &nomad.Job{ID: canary}}},
		message.TopicEvaluation: {Row: &nomad.Evaluation{ID: "e", LeaderACL: canary}},
		message.TopicACLToken:   {Row: &rbac.Token{AccessorID: "t", SecretID: canary}},
		message.TopicACLAuthMethod: {Row: &rbac.AuthMethod{Name: "m", Config: &rbac.AuthMethodConfig{OIDCClientSecret: canary,
			OIDCClientAssertion: &rbac.OIDCClientAssertion{ClientSecret: canary, PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: canary}}}}},
		message.TopicCSIVolume: {Row: &csi.Volume{ID: "v", Secrets: csi.Secrets{"k": canary}, Sealed: &csi.Sealed{KeyID: canary, Data: []byte(canary)},
			MountOptions: &nomad.CSIMountOptions{MountFlags: []string{"password=" + canary}}, Context: map[string]string{"a": "b"}}},
		message.TopicCSIPlugin: {Row: csi.NewPlugin("p").WithJob(csi.PluginNode, csi.JobDescription{Namespace: canary, ID: canary})},
		message.TopicVariable: {Row: &variable.Encrypted{Metadata: variable.Metadata{Path: "p",
			Lock: &variable.Lock{ID: canary}},
			Ciphertext: variable.Ciphertext{Data: []byte(canary), KeyID: canary}}},
	}
	for topic, row := range rows {
		b := stream.New(1)
		b.Applied(1, message.ApplyPlanResultsRequestType, []table.Write{row})
		s := b.Subscribe(0)
		batch, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		events := batch.Events()
		if len(events) != 1 || events[0].Topic != topic {
			t.Fatalf("events of %s = %v", topic, events)
		}
		text, err := events[0].JSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), canary) || strings.Contains(string(text), "YzRuNHJ5") {
			t.Errorf("event of %s has a secret: %s", topic, text)
		}
		if !strings.Contains(string(text), `"Payload":{`) {
			t.Errorf("event of %s has no payload: %s", topic, text)
		}
	}
}
