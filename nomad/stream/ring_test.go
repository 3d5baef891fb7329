package stream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// reports applies the entries from first to last, each with the updates of many allocations.
func reports(b *Broker, first, last uint64) {
	for i := first; i <= last; i++ {
		var rows []table.Write
		for n := range 60 {
			events := []*nomad.TaskEvent{{Type: "Started"}, {Type: "Terminated", Message: strings.Repeat("m", 200)}}
			rows = append(rows, table.Write{Row: &nomad.Allocation{ID: fmt.Sprint("a", n),
				TaskStates: map[string]*nomad.TaskState{"t": {Events: events}}}})
		}
		b.Applied(i, message.AllocClientUpdateRequestType, rows)
	}
}

// read reads the next entries and returns the index of the last one.
func read(t *testing.T, s *Subscription, count int) (index uint64) {
	t.Helper()
	for range count {
		batch, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		index = batch.Index
	}
	return index
}

// The ring keeps the configured number of entries, and more only for a reader that has not read them.
func TestRing_Kept(t *testing.T) {
	for name, c := range map[string]struct {
		readers func(t *testing.T, b *Broker)
		kept    int
	}{
		"no reader":         {func(*testing.T, *Broker) {}, 10},
		"reader at the end": {func(t *testing.T, b *Broker) { b.Subscribe(0) }, 10},
		"reader behind by 30": {func(t *testing.T, b *Broker) {
			s := b.Subscribe(0)
			reports(b, 11, 50)
			read(t, s, 20)
		}, 30},
		"of two readers the slower counts": {func(t *testing.T, b *Broker) {
			fast, slow := b.Subscribe(0), b.Subscribe(0)
			reports(b, 11, 50)
			read(t, fast, 50)
			read(t, slow, 25)
		}, 25},
		"reader reads up": {func(t *testing.T, b *Broker) {
			s := b.Subscribe(0)
			reports(b, 11, 50)
			read(t, s, 50)
		}, 10},
		"slow reader is closed": {func(t *testing.T, b *Broker) {
			s := b.Subscribe(0)
			reports(b, 11, 50)
			s.Close()
		}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(10)
			reports(b, 1, 10)
			c.readers(t, b)
			if len(b.kept) != c.kept {
				t.Errorf("%d entries are kept, want %d", len(b.kept), c.kept)
			}
		})
	}
}

// A caught-up reader does not make the ring grow.
func TestRing_CaughtUpReader(t *testing.T) {
	b := New(10)
	s := b.Subscribe(0)
	for i := uint64(1); i <= 300; i++ {
		reports(b, i, i)
		read(t, s, 1)
		if len(b.kept) > 10 {
			t.Fatalf("%d entries are kept after the entry %d, want 10", len(b.kept), i)
		}
	}
}

// A reader that is behind is dropped at a limit of bytes. The entries that were kept for it are dropped then.
func TestRing_Bytes(t *testing.T) {
	b := New(10)
	slow := b.Subscribe(0)
	most := 0
	for i := uint64(1); i <= 2000 && slow.next >= b.first; i++ {
		reports(b, i, i)
		most = max(most, b.bytes)
	}
	if most > maxBytes {
		t.Errorf("the ring had %d bytes, want %d at most", most, maxBytes)
	}
	if _, err := slow.Next(t.Context()); !errors.Is(err, ErrSlow) {
		t.Errorf("Next() = %v, want ErrSlow", err)
	}
	if len(b.kept) != 10 {
		t.Errorf("%d entries are kept, want 10", len(b.kept))
	}
	sum := 0
	for _, k := range b.kept {
		sum += k.bytes
	}
	if b.bytes != sum {
		t.Errorf("the ring counts %d bytes, want %d", b.bytes, sum)
	}
	b.Replaced()
	if b.bytes != 0 {
		t.Errorf("the ring counts %d bytes after a restore, want 0", b.bytes)
	}
}

// The configured number of entries is kept whatever their size.
func TestRing_ConfiguredSize(t *testing.T) {
	b := New(1500)
	reports(b, 1, 1600)
	if len(b.kept) != 1500 {
		t.Errorf("%d entries are kept, want 1500", len(b.kept))
	}
}
