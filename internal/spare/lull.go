package spare

import (
	"context"
	"time"
)

// Lull tells whoever makes things ahead when there is time for that.
type Lull struct {
	noted chan struct{} // buffered 1
}

// NewLull returns one of which nothing is noted.
func NewLull() Lull { return Lull{noted: make(chan struct{}, 1)} }

// Note tells that there is something more urgent just now.
func (l Lull) Note() {
	select {
	case l.noted <- struct{}{}:
	default: // it is known
	}
}

// Noted says whether something was noted since Wait or Next returned.
func (l Lull) Noted() bool { return len(l.noted) > 0 }

// Wait returns when nothing was noted for so long, false if ctx ends before.
func (l Lull) Wait(ctx context.Context, quiet time.Duration) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-l.noted:
		case <-time.After(quiet):
			return true
		}
	}
}

// Next returns when something is noted, false if ctx ends before.
func (l Lull) Next(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-l.noted:
		return true
	}
}
