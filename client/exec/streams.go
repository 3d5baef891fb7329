package exec

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// input buffers what the caller has sent and the program has not read.
type input struct {
	mu     sync.Mutex
	moved  *sync.Cond
	buf    []byte
	ended  bool // the caller has closed its input
	over   bool // the program has exited
	parked bool // put is waiting for space
}

func newInput() *input {
	in := &input{}
	in.moved = sync.NewCond(&in.mu)
	return in
}

// Read implements io.Reader, for the program.
func (in *input) Read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 {
		switch {
		case in.over:
			return 0, io.ErrClosedPipe
		case in.ended:
			return 0, io.EOF
		}
		in.moved.Wait()
	}
	n := copy(p, in.buf)
	if in.buf = in.buf[n:]; len(in.buf) == 0 {
		in.buf = nil
	}
	in.moved.Broadcast()
	return n, nil
}

// put appends data, and waits for space in the buffer. Data after the end is dropped.
func (in *input) put(p []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(p) > 0 && !in.ended && !in.over {
		room := maxHeld - len(in.buf)
		if room <= 0 {
			in.parked = true
			in.moved.Wait()
			in.parked = false
			continue
		}
		n := min(room, len(p))
		in.buf = append(in.buf, p[:n]...)
		p = p[n:]
		in.moved.Broadcast()
	}
}

// end closes the input.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.moved.Broadcast()
}

// stop ends all waiting, because the program has exited.
func (in *input) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over, in.buf = true, nil
	in.moved.Broadcast()
}

// probe calls ask periodically while put waits. The caller's messages are not read then, so a
// disconnect would go unnoticed.
func (in *input) probe(ctx context.Context, ask func()) {
	tick := time.NewTicker(stillThere)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		in.mu.Lock()
		parked := in.parked
		in.mu.Unlock()
		if parked {
			ask()
		}
	}
}

// output sends one output stream of the program to the caller.
type output struct {
	st   *rpc.Stream
	gone context.CancelFunc // called when the caller is gone
	wrap func(*message.ExecIO) *message.ExecOutput
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := min(maxChunk, len(p)-done)
		if err := send(o.st, o.wrap(&message.ExecIO{Data: p[done : done+n]})); err != nil {
			o.gone()
			return done, err
		}
		done += n
	}
	return done, nil
}

// send sends one message.
func send(st *rpc.Stream, msg *message.ExecOutput) error {
	text, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	return st.Encode(&message.StreamErrWrapper{Payload: text})
}
