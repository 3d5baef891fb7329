package wire

import (
	"io"
	"sync"
)

// pipeBuffer is the size of the buffer in each direction.
const pipeBuffer = 256 << 10

// Pipe returns the two ends of a buffered in-process connection.
func Pipe() (io.ReadWriteCloser, io.ReadWriteCloser) {
	x, y := newHalf(), newHalf()
	return &pipeEnd{in: x, out: y}, &pipeEnd{in: y, out: x}
}

type pipeEnd struct{ in, out *half }

// Read implements io.Reader.
func (p *pipeEnd) Read(b []byte) (int, error) { return p.in.read(b) }

// Write implements io.Writer.
func (p *pipeEnd) Write(b []byte) (int, error) { return p.out.write(b) }

// Close closes both directions. Data in the buffers can still be read.
func (p *pipeEnd) Close() error {
	p.in.close()
	p.out.close()
	return nil
}

// half is one direction.
type half struct {
	mu     sync.Mutex
	moved  *sync.Cond
	buf    []byte
	closed bool
}

func newHalf() *half {
	h := &half{}
	h.moved = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 {
		if h.closed {
			return 0, io.EOF
		}
		h.moved.Wait()
	}
	n := copy(b, h.buf)
	if h.buf = h.buf[n:]; len(h.buf) == 0 {
		h.buf = nil
	}
	h.moved.Broadcast()
	return n, nil
}

func (h *half) write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := 0
	for done < len(b) {
		if h.closed {
			return done, io.ErrClosedPipe
		}
		room := pipeBuffer - len(h.buf)
		if room <= 0 {
			h.moved.Wait()
			continue
		}
		n := min(room, len(b)-done)
		h.buf = append(h.buf, b[done:done+n]...)
		done += n
		h.moved.Broadcast()
	}
	return done, nil
}

func (h *half) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.moved.Broadcast()
}
