// Package wake has the channels that wake one goroutine (Signal), or all that wait (Broadcast).
package wake

// Signal wakes its receiver. Sends before a receive count as one.
type Signal chan struct{}

// New returns a Signal.
func New() Signal { return make(Signal, 1) }

// Send wakes the receiver, now or at its next receive. It never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // the receiver will wake anyway
	}
}

// Clear ends a wake-up that no receiver has got yet.
func (s Signal) Clear() {
	select {
	case <-s:
	default:
	}
}
