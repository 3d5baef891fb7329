package exec2

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/testaudit"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// state returns the number of instances that need the reader, and the reader.
func (d *Denials) state() (int, *reader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.users, d.reader
}

// TestOneReader checks that instances share one reader, which runs until the last one has left, and
// that it can run again.
func TestOneReader(t *testing.T) {
	testaudit.Need(t, denials.Calls)
	d := NewDenials(slog.New(slog.DiscardHandler))
	join := func(users int) (r *reader, leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.read(ctx) }()
		testpace.Until(t, "the instance has joined", func() bool {
			n, now := d.state()
			r = now
			return n == users
		})
		return r, func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("read() = %v", err)
			}
		}
	}
	for range 2 {
		first, leaveFirst := join(1)
		second, leaveSecond := join(2)
		if first != second {
			t.Error("the second instance started another reader")
		}
		leaveFirst()
		select {
		case <-first.ended:
			t.Error("the reader ended although an instance needs it")
		default:
		}
		leaveSecond()
		select {
		case <-first.ended:
		default:
			t.Error("the reader runs although no instance needs it")
		}
	}
}
