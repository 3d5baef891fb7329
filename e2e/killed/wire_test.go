package killed_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// wire forwards TCP connections to an agent. It can hold them at a point of their bytes.
//
//	open ──hold──▶ armed ──bytes found──▶ held ──release, drop──▶ open
type wire struct {
	*fleet
	ln net.Listener

	mu     sync.Mutex
	target string
	armed  *hold
	conns  map[net.Conn]bool
}

// hold is a point of the bytes in one direction. Each direction of a connection is stopped when it is
// reached: before the bytes are forwarded, or after them.
type hold struct {
	up      bool   // the bytes are of the side that connected
	text    string // found at the point; "" for any
	after   bool   // the bytes with the text are forwarded first
	skipped int    // the number of bytes to forward first

	reached chan struct{}
	over    chan struct{}
}

func newWire(f *fleet) *wire {
	ln, err := net.Listen("tcp", testnet.Any)
	if err != nil {
		f.t.Fatal(err)
	}
	w := &wire{fleet: f, ln: ln, conns: map[net.Conn]bool{}}
	f.wires = append(f.wires, w)
	go func() {
		for {
			c, err := w.ln.Accept()
			if err != nil {
				return
			}
			go w.forward(c)
		}
	}()
	return w
}

// close ends all connections. The agents have ended.
func (w *wire) close() {
	w.ln.Close()
	w.drop()
}

func (w *wire) addr() string { return w.ln.Addr().String() }

// lead sets the address to which connections are forwarded.
func (w *wire) lead(target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = target
}

// hold arms the wire.
func (w *wire) hold(h hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.reached, h.over = make(chan struct{}), make(chan struct{})
	w.armed = &h
}

// reached waits until the wire is held.
func (w *wire) reached() {
	w.t.Helper()
	w.mu.Lock()
	h := w.armed
	w.mu.Unlock()
	testpace.Until(w.t, "the wire is held at "+h.text, func() bool {
		select {
		case <-h.reached:
			return true
		default:
			return false
		}
	})
}

// release continues the held connections.
func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed != nil {
		close(w.armed.over)
		w.armed = nil
	}
}

// drop closes all connections. Held bytes are lost.
func (w *wire) drop() {
	w.mu.Lock()
	for c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.release()
}

// forward forwards a connection until one side closes it.
func (w *wire) forward(c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	target := w.target
	w.mu.Unlock()
	d := w.dial(target)
	if d == nil {
		return
	}
	defer d.Close()
	w.mu.Lock()
	w.conns[c], w.conns[d] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	for _, up := range []bool{true, false} {
		both.Go(func() {
			from, to := c, d
			if !up {
				from, to = d, c
			}
			w.pump(to, from, up)
			from.Close()
			to.Close()
		})
	}
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	delete(w.conns, d)
}

// dial connects to the agent. While the agent does not run, the one that connects waits.
func (w *wire) dial(target string) net.Conn {
	tick := time.NewTicker(dialPause)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < patience; <-tick.C {
		if d, err := net.Dial("tcp", target); err == nil {
			return d
		}
	}
	return nil
}

const dialPause = 5 * time.Millisecond

// pump copies one direction.
func (w *wire) pump(to io.Writer, from io.Reader, up bool) {
	buf, sent := make([]byte, 32<<10), 0
	var tail []byte // of what was read before: a text may begin there
	for {
		n, err := from.Read(buf)
		if n > 0 {
			seen := append(tail, buf[:n]...)
			if w.pass(to, buf[:n], seen, up, sent) != nil {
				return
			}
			sent += n
			tail = bytes.Clone(seen[max(0, len(seen)-maxText):])
		}
		if err != nil {
			return
		}
	}
}

// maxText bounds the texts at which a wire is held.
const maxText = 64

// pass forwards bytes, and waits before or after them while the wire is held.
func (w *wire) pass(to io.Writer, data, seen []byte, up bool, sent int) error {
	w.mu.Lock()
	h := w.armed
	found := h != nil && h.up == up && sent >= h.skipped && bytes.Contains(seen, []byte(h.text))
	held := h != nil && h.is(h.reached)
	if found && !held {
		close(h.reached)
	}
	w.mu.Unlock()
	switch {
	case found && h.after:
		_, err := to.Write(data)
		<-h.over
		return err
	case found, held:
		<-h.over
	}
	_, err := to.Write(data)
	return err
}

// is reports whether a channel of the hold is closed.
func (*hold) is(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
