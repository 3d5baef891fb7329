package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// DefaultSize is how many log entries are kept for new subscribers.
const DefaultSize = 100

// lag is how many entries a subscriber may be behind: a busy cluster writes thousands in a second,
// and readers pause.
const lag = 8192

// ErrSlow means that a subscriber did not keep up and missed dropped events.
var ErrSlow = errors.New("event stream reader is too slow: unread events were dropped")

// ErrReplaced means that an operator restored a snapshot: later events do not continue the earlier
// ones.
var ErrReplaced = errors.New("event stream closed: the state was replaced by a restored snapshot")

// Broker keeps the last log entries that have events. It is safe for concurrent use.
type Broker struct {
	size, lag int

	mu    sync.Mutex
	kept  []*Batch
	first uint64 // number of kept[0]; entries are numbered in order
	era   uint64 // incremented by each restore
	subs  int
	moved chan struct{} // closed at the next entry; nil if no reader waits
}

// New returns a Broker that keeps size entries.
func New(size int) *Broker { return &Broker{size: size, lag: max(lag, size)} }

// Applied stores the rows that a command wrote. It implements fsm.Recorder.
func (b *Broker) Applied(index uint64, command nomad.MessageType, rows []table.Write) {
	if _, published := types[command]; !published {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, &Batch{Index: index, command: command, rows: rows})
	b.trim()
	b.wake()
}

// Replaced drops all entries and ends all subscriptions. It implements fsm.Recorder.
func (b *Broker) Replaced() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first += uint64(len(b.kept))
	b.kept = nil
	b.era++
	b.wake()
}

// trim drops old entries.
func (b *Broker) trim() {
	keep := b.size
	if b.subs > 0 {
		keep = b.lag
	}
	for len(b.kept) > keep {
		b.kept[0] = nil
		b.kept = b.kept[1:]
		b.first++
	}
}

func (b *Broker) wake() {
	if b.moved != nil {
		close(b.moved)
		b.moved = nil
	}
}

// Subscribe starts at the first kept entry with this index or a later one. Older entries are
// skipped. The caller closes the subscription.
func (b *Broker) Subscribe(index uint64) *Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs++
	end := b.first + uint64(len(b.kept))
	next := max(b.first, end-min(end, uint64(b.size)))
	for next < end && b.kept[next-b.first].Index < index {
		next++
	}
	return &Subscription{b: b, index: index, next: next, era: b.era}
}

// Subscription reads entries one after the other. It is not safe for concurrent use.
type Subscription struct {
	b      *Broker
	index  uint64
	next   uint64
	era    uint64
	closed bool
}

// Next returns the next entry, and waits for it until ctx ends.
func (s *Subscription) Next(ctx context.Context) (*Batch, error) {
	for {
		batch, moved, err := s.take()
		if batch != nil || err != nil {
			return batch, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-moved:
		}
	}
}

// take returns the next entry, or the channel to wait on.
func (s *Subscription) take() (*Batch, <-chan struct{}, error) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case s.era != b.era:
			return nil, nil, ErrReplaced
		case s.next < b.first:
			return nil, nil, fmt.Errorf("%w (%d entries of the log)", ErrSlow, b.first-s.next)
		case s.next == b.first+uint64(len(b.kept)):
			if b.moved == nil {
				b.moved = make(chan struct{})
			}
			return nil, b.moved, nil
		}
		batch := b.kept[s.next-b.first]
		s.next++
		if batch.Index >= s.index {
			return batch, nil, nil
		}
	}
}

// Close ends the subscription and drops the entries that were kept only for it.
func (s *Subscription) Close() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.b.subs--
		s.b.trim()
	}
}
