package connlimit_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/open-nomad/open-nomad/internal/connlimit"
)

// listener is a listener of one key whose accepted connections can be received.
type listener struct {
	path     string
	accepted chan net.Conn
	refused  atomic.Int64
}

func open(t *testing.T, limit *connlimit.Limit, key string) *listener {
	t.Helper()
	d := &listener{path: filepath.Join(t.TempDir(), "sock"), accepted: make(chan net.Conn)}
	ln, err := net.Listen("unix", d.path)
	if err != nil {
		t.Fatal(err)
	}
	l := &connlimit.Listener{Listener: ln, Limit: limit, Key: func(net.Conn) string { return key },
		Refuse: func(c net.Conn) { d.refused.Add(1); c.Close() }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			d.accepted <- c
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return d
}

// admitted connects and returns the accepted end.
func (d *listener) admitted(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	ours = d.dial(t)
	return ours, <-d.accepted
}

func (d *listener) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", d.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// isClosed waits until the other side has closed a connection.
func isClosed(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read() = %v, want EOF", err)
	}
}

func TestLimitOfAKey(t *testing.T) {
	limit := connlimit.New(2, 100)
	a, b := open(t, limit, "a"), open(t, limit, "b")
	_, first := a.admitted(t)
	a.admitted(t)
	isClosed(t, a.dial(t))
	b.admitted(t)
	first.Close()
	first.Close() // counts once
	a.admitted(t)
	isClosed(t, a.dial(t))
	if got := a.refused.Load(); got != 2 {
		t.Errorf("%d connections were refused, want 2", got)
	}
}

// The total is shared evenly: a key with few connections takes from the key with the most.
func TestTotalIsShared(t *testing.T) {
	limit := connlimit.New(0, 4)
	a, b, c := open(t, limit, "a"), open(t, limit, "b"), open(t, limit, "c")
	a.admitted(t)
	a.admitted(t)
	third, _ := a.admitted(t)
	fourth, _ := a.admitted(t)
	isClosed(t, a.dial(t))
	b.admitted(t)
	isClosed(t, fourth)
	b.admitted(t)
	isClosed(t, third)
	isClosed(t, b.dial(t)) // a and b have two each
	if got := b.refused.Load(); got != 1 {
		t.Errorf("%d connections of b were refused, want 1", got)
	}
	c.admitted(t)          // in place of one of a or b
	isClosed(t, c.dial(t)) // two would be more than the others keep
}
