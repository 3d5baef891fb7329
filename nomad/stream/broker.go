package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// DefaultSize is how many log entries are kept for new subscribers.
const DefaultSize = 100

// Limits of the entries that are kept only because a subscriber has not read them: a busy cluster writes thousands in
// a second, and readers pause. The bytes are an estimate.
const (
	lag      = 8192
	maxBytes = 64 << 20
)

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
	bytes int    // of kept
	first uint64 // number of kept[0]; entries are numbered in order
	era   uint64 // incremented by each restore
	subs  map[*Subscription]bool
	moved chan struct{} // closed at the next entry; nil if no reader waits
}

// New returns a Broker that keeps size entries.
func New(size int) *Broker {
	return &Broker{size: size, lag: max(lag, size), subs: map[*Subscription]bool{}}
}

// Applied stores the rows that a command wrote. It implements fsm.Recorder.
func (b *Broker) Applied(index uint64, command message.CommandType, rows []table.Write) {
	if _, published := types[command]; !published {
		return
	}
	batch := &Batch{Index: index, command: command, rows: rows, bytes: sizeOf(rows)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, batch)
	b.bytes += batch.bytes
	b.trim()
	b.wake()
}

// Replaced drops all entries and ends all subscriptions. It implements fsm.Recorder.
func (b *Broker) Replaced() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first += uint64(len(b.kept))
	b.kept, b.bytes = nil, 0
	b.era++
	b.wake()
}

// trim drops the oldest entries beyond the configured number, except those that a subscriber has not read and that are
// within the limits.
func (b *Broker) trim() {
	for len(b.kept) > b.size && (len(b.kept) > b.lag || b.bytes > maxBytes) {
		b.drop(1)
	}
	if extra := len(b.kept) - b.size; extra > 0 {
		b.drop(min(extra, int(b.slowest()-b.first)))
	}
}

// drop drops the oldest entries.
func (b *Broker) drop(count int) {
	for _, old := range b.kept[:count] {
		b.bytes -= old.bytes
	}
	clear(b.kept[:count])
	b.kept = b.kept[count:]
	b.first += uint64(count)
}

// slowest returns the number of the oldest kept entry that a subscriber has not read, or the number of the next entry if
// there is none. Subscribers that missed entries do not count.
func (b *Broker) slowest() uint64 {
	least := b.first + uint64(len(b.kept))
	for s := range b.subs {
		if s.era == b.era && s.next >= b.first {
			least = min(least, s.next)
		}
	}
	return least
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
	end := b.first + uint64(len(b.kept))
	next := max(b.first, end-min(end, uint64(b.size)))
	for next < end && b.kept[next-b.first].Index < index {
		next++
	}
	s := &Subscription{b: b, index: index, next: next, era: b.era}
	b.subs[s] = true
	return s
}

// Subscription reads entries one after the other. It is not safe for concurrent use.
type Subscription struct {
	b     *Broker
	index uint64
	next  uint64 // number of the next entry; guarded by b.mu
	era   uint64
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
		if s.next++; s.next-1 == b.first {
			b.trim() // it may have been kept only for this subscriber
		}
		if batch.Index >= s.index {
			return batch, nil, nil
		}
	}
}

// Close ends the subscription and drops the entries that were kept only for it.
func (s *Subscription) Close() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	delete(s.b.subs, s)
	s.b.trim()
}
