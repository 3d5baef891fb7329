package identity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// servers signs identities, each with a TTL.
type servers struct {
	ttl map[string]time.Duration

	mu     sync.Mutex
	down   bool
	reject string
	short  bool // omits one token
	calls  []time.Time
	// claims is the name of the identity whose claims contain digests.
	claims string
	// digests are those of the last request.
	digests map[string]map[string]string
}

func (s *servers) Call(_ context.Context, method string, req, resp any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Now())
	if method != "Alloc.SignIdentities" {
		return fmt.Errorf("unexpected method %s", method)
	}
	if s.down {
		return errors.New("no servers")
	}
	s.digests = req.(*message.AllocIdentitiesRequest).ArtifactDigests
	out := resp.(*message.AllocIdentitiesResponse)
	for i, id := range req.(*message.AllocIdentitiesRequest).Identities {
		if id.IdentityName == s.reject {
			out.Rejections = append(out.Rejections, &message.WorkloadIdentityRejection{
				WorkloadIdentityRequest: *id, Reason: message.WIRejectionReasonMissingIdentity})
			continue
		}
		if s.short && i == 0 {
			continue
		}
		if id.IdentityName == s.claims {
			out.DigestClaims = append(out.DigestClaims, id.WIHandle)
		}
		signed := &message.SignedWorkloadIdentity{WorkloadIdentityRequest: *id,
			JWT: fmt.Sprintf("%s-%d", id.IdentityName, len(s.calls))}
		if ttl := s.ttl[id.IdentityName]; ttl > 0 {
			signed.Expiration = time.Now().Add(ttl)
		}
		out.SignedIdentities = append(out.SignedIdentities, signed)
	}
	return nil
}

func (s *servers) called() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.calls...)
}

func (s *servers) between(from, to time.Time) []time.Time {
	var out []time.Time
	for _, at := range s.called() {
		if at.After(from) && at.Before(to) {
			out = append(out, at)
		}
	}
	return out
}

func (s *servers) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func open(t *testing.T) *state.DB {
	t.Helper()
	db, err := state.Open(state.Config{Dir: t.TempDir(), NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// forgetful stores nothing.
type forgetful struct{}

func (forgetful) Identities(string) ([]*message.SignedWorkloadIdentity, error)  { return nil, nil }
func (forgetful) PutIdentities(string, []*message.SignedWorkloadIdentity) error { return nil }

func manager(s *servers, db *state.DB, names ...string) *identity.Manager {
	task := &nomad.Task{Name: "web"}
	for _, name := range names {
		task.Identities = append(task.Identities, &nomad.WorkloadIdentity{Name: name})
	}
	var store identity.Store = db
	if db == nil {
		store = forgetful{}
	}
	return identity.New(identity.Config{
		Alloc: &nomad.Allocation{
			ID: "a1", TaskGroup: "g", SignedIdentities: map[string]string{"web": "default-token"}, SigningKeyID: "k1",
			Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{task}}}},
		},
		RPC: s, Store: store, Log: slog.New(slog.DiscardHandler),
	})
}

func token(t *testing.T, ch <-chan idtoken.Token) string {
	t.Helper()
	select {
	case tok := <-ch:
		return tok.Reveal()
	default:
		return ""
	}
}

func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db := &servers{ttl: map[string]time.Duration{"aws": time.Hour}}, open(t)
		m := manager(s, db, "aws", "gcp")
		if err := m.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := m.Default("web"); got.Reveal() != "default-token" || got.KeyID() != "k1" {
			t.Errorf("Default() = %v", got)
		}
		ch, _ := m.Watch(identity.TaskHandle("web", "aws"))
		if got := token(t, ch); got != "aws-1" {
			t.Errorf("first token = %q, want aws-1", got)
		}

		// A later agent uses the stored tokens if they have not expired.
		s.set(func() { s.down = true })
		next := manager(s, db, "aws", "gcp")
		if err := next.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		ch, _ = next.Watch(identity.TaskHandle("web", "gcp"))
		if got := token(t, ch); got != "gcp-1" || len(s.called()) != 1 {
			t.Errorf("stored token = %q after %d calls, want gcp-1 after 1", got, len(s.called()))
		}

		// Prepare does not wait for expired tokens and does not return them; Run renews them.
		time.Sleep(2 * time.Hour)
		late := manager(s, db, "aws", "gcp")
		if err := late.Prepare(t.Context()); err != nil || len(s.called()) != 1 {
			t.Errorf("Prepare() with expired tokens and no servers = %v after %d calls, want nil after 1", err, len(s.called()))
		}
		aws, _ := late.Watch(identity.TaskHandle("web", "aws"))
		if got := token(t, aws); got != "" {
			t.Errorf("an expired token is returned: %q", got)
		}
		s.set(func() { s.down = false })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late.Run(ctx)
		if got := token(t, aws); got != "aws-2" {
			t.Errorf("token after a second = %q, want aws-2", got)
		}
	})
}

// A refusal of the servers fails at once, unreachable servers after a timeout.
func TestPrepareFails(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		servers    *servers
	}{
		{"no servers", "no servers", &servers{down: true}},
		{"one rejected", "identity not found", &servers{reject: "gcp"}},
		{"one missing", "1 tokens for 2", &servers{short: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := manager(tc.servers, open(t), "aws", "gcp").Prepare(t.Context())
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("Prepare() = %v, want an error with %q", err, tc.want)
				}
				if took := time.Since(began); took > 2*time.Minute || tc.servers.down != (took > 30*time.Second) {
					t.Errorf("Prepare() took %v", took)
				}
			})
		})
	}
}

// Prepare waits for servers that become reachable.
func TestPrepareWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{down: true}
		time.AfterFunc(20*time.Second, func() { s.set(func() { s.down = false }) })
		if err := manager(s, open(t), "aws").Prepare(t.Context()); err != nil {
			t.Errorf("Prepare() = %v", err)
		}
	})
}

// Allocations that start together, or waited for the servers together, renew at different
// times.
func TestRenewalsSpread(t *testing.T) {
	const ttl, allocs, lives = time.Minute, 500, 10
	synctest.Test(t, func(t *testing.T) {
		s := &servers{ttl: map[string]time.Duration{"aws": ttl}}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range allocs {
			m := manager(s, nil, "aws")
			if err := m.Prepare(ctx); err != nil {
				t.Fatal(err)
			}
			all.Go(func() { m.Run(ctx) })
		}
		began := time.Now()
		time.Sleep(lives * ttl)
		s.set(func() { s.down = true })
		time.Sleep(5 * ttl)
		s.set(func() { s.down = false })
		back := time.Now()
		time.Sleep(lives * ttl)
		cancel()
		all.Wait()
		for from, calls := range map[time.Time][]time.Time{began: s.between(began, began.Add(lives*ttl)),
			back.Add(2 * ttl): s.between(back.Add(2*ttl), back.Add(lives*ttl))} {
			perBucket := map[time.Duration]int{}
			for _, at := range calls {
				perBucket[at.Sub(from)/(2*time.Second)]++
			}
			mean := float64(len(calls)) / float64(len(perBucket))
			for n, calls := range perBucket {
				if float64(calls) > 2*mean {
					t.Errorf("%d renewals within two seconds, %v after the start: want at most twice %.0f", calls, n*2*time.Second, mean)
				}
			}
		}
	})
}

func TestRenewal(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, time.Minute, 24 * time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &servers{ttl: map[string]time.Duration{"aws": ttl, "gcp": 10 * ttl}}
				m := manager(s, open(t), "aws", "gcp", "forever")
				if err := m.Prepare(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*ttl)
				defer cancel()
				m.Run(ctx)
				calls := s.called()
				if len(calls) < 30 || len(calls) > 45 {
					t.Errorf("%d calls in 20 lifetimes, want one each half life", len(calls))
				}
				if first := calls[1].Sub(calls[0]); first > ttl*6/10 {
					t.Errorf("first renewed after %v of %v", first, ttl)
				}
				for i := 2; i < len(calls); i++ {
					if gap := calls[i].Sub(calls[i-1]); gap < ttl/2 || gap > ttl*6/10 {
						t.Errorf("renewed after %v, want between half of %v and a tenth more", gap, ttl)
					}
				}
			})
		})
	}
}

func TestNothingToRenew(t *testing.T) {
	s := &servers{}
	m := manager(s, open(t), "forever")
	if err := m.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context()); err != nil {
		t.Errorf("Run() = %v, want nil at once", err)
	}
}

// TestServersUnreachable checks that renewal is retried before and after the token expires.
func TestServersUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{ttl: map[string]time.Duration{"aws": 8 * time.Second}}
		m := manager(s, open(t), "aws")
		if err := m.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		s.set(func() { s.down = true })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		time.Sleep(8 * time.Second)
		tries := len(s.called()) - 1
		if tries < 3 || tries > 60 {
			t.Errorf("%d attempts before the token expired, want a few", tries)
		}
		time.Sleep(10 * time.Minute)
		late := len(s.called()) - 1 - tries
		if late < 10 || late > 60 {
			t.Errorf("%d attempts in ten minutes without servers, want some", late)
		}
		ch, stop := m.Watch(identity.TaskHandle("web", "aws"))
		defer stop()
		token(t, ch)
		s.set(func() { s.down = false })
		tok := <-ch
		if tok.IsZero() || time.Since(start) > 12*time.Minute {
			t.Errorf("no new token soon after the servers were reachable again: %v", time.Since(start))
		}
		cancel()
		<-ended
	})
}

func TestSlowSubscriberGetsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{ttl: map[string]time.Duration{"aws": 10 * time.Second}}
		m := manager(s, open(t), "aws")
		if err := m.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		ch, stop := m.Watch(identity.TaskHandle("web", "aws"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m.Run(ctx)
		want := fmt.Sprintf("aws-%d", len(s.called()))
		if got := token(t, ch); got != want {
			t.Errorf("token = %q, want the newest, %q", got, want)
		}
		if got := token(t, ch); got != "" {
			t.Errorf("a second token %q was waiting, want none", got)
		}
		stop()
	})
}

// TestDownloaded checks that the digests of a task's artifacts reach the servers, that only the identities
// of this task with a claim of them get new tokens, and that a restarted agent has the tokens of all tasks.
func TestDownloaded(t *testing.T) {
	s := &servers{claims: "aws"}
	db := open(t)
	alloc := &nomad.Allocation{ID: "a1", TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{
		{Name: "web", Identities: []*nomad.WorkloadIdentity{{Name: "aws"}, {Name: "gcp"}}},
		{Name: "log", Identities: []*nomad.WorkloadIdentity{{Name: "aws"}}},
	}}}}}
	m := identity.New(identity.Config{Alloc: alloc, RPC: s, Store: db, Log: slog.New(slog.DiscardHandler)})
	if err := m.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	web, stop := m.Watch(identity.TaskHandle("web", "aws"))
	defer stop()
	log, stop := m.Watch(identity.TaskHandle("log", "aws"))
	defer stop()
	other, stop := m.Watch(identity.TaskHandle("web", "gcp"))
	defer stop()
	if got := token(t, web) + " " + token(t, log) + " " + token(t, other); got != "aws-1 aws-1 gcp-1" {
		t.Fatalf("first tokens = %s", got)
	}
	if err := m.Downloaded(t.Context(), "web", map[string]string{}); err != nil || len(s.called()) != 1 {
		t.Errorf("Downloaded() without a digest = %v with %d calls, want none", err, len(s.called())-1)
	}
	want := map[string]map[string]string{"web": {"local/": "5f"}}
	if err := m.Downloaded(t.Context(), "web", want["web"]); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.digests, want) {
		t.Errorf("the servers got the digests %v, want %v", s.digests, want)
	}
	if got := token(t, web); got != "aws-2" {
		t.Errorf("token after the download = %s, want a new one", got)
	}
	for name, ch := range map[string]<-chan idtoken.Token{"task": log, "identity": other} {
		select {
		case tok := <-ch:
			t.Errorf("another %s got the token %s", name, tok.Reveal())
		default:
		}
	}
	stored, err := db.Identities("a1")
	if err != nil || len(stored) != 3 {
		t.Errorf("stored tokens = %v, %v, want those of both tasks", stored, err)
	}
	if err := m.Downloaded(t.Context(), "none", want["web"]); err != nil || len(s.called()) != 2 {
		t.Errorf("Downloaded() of a task without identities = %v with %d calls, want none", err, len(s.called())-2)
	}
	// An agent with stored tokens only does not know their claims.
	restarted := identity.New(identity.Config{Alloc: alloc, RPC: s, Store: db, Log: slog.New(slog.DiscardHandler)})
	if err := restarted.Prepare(t.Context()); err != nil || len(s.called()) != 2 {
		t.Fatalf("Prepare() with stored tokens = %v with %d calls, want none", err, len(s.called())-2)
	}
	for range 2 {
		if err := restarted.Downloaded(t.Context(), "log", want["web"]); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.called()); n != 4 {
		t.Errorf("a restarted agent called %d times, want 2", n-2)
	}
}
