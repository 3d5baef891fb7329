package wake

import "sync"

// Broadcast wakes all its receivers. The zero value is ready. Its methods may be called concurrently.
type Broadcast struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next Send, nil without a receiver
}

// Send wakes all that have called Next. It never blocks.
func (b *Broadcast) Send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Next returns a channel that the next Send closes.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}
