// Package exec carries sessions of "alloc exec" on a node: what the caller sends over a
// stream of Allocations.Exec becomes the input of a program that a driver runs, and what
// the program writes goes back.
//
//	stream ──ExecInput──▶ input (at most maxHeld) ──▶ driver's program
//	       ◀─ExecOutput── chunks of at most maxChunk ◀───────┘
//
// Nothing is held back beyond that: a program that does not read stops its caller, and a
// caller that does not read stops the program. A session ends with its program, with the
// stream, or with its context; the driver kills the program then. Limits counts the
// sessions of a node.
//
// A session has three goroutines beside the caller's own, and all have ended, or are
// about to, when Serve returns. The package keeps nothing of what passes through it.
package exec

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	// maxInput bounds one message of a caller.
	maxInput = 1 << 20
	// maxHeld is how much a program may be behind with reading.
	maxHeld = 128 << 10
	// maxChunk is what one message to the caller holds at most.
	maxChunk = 16 << 10
	// maxSide bounds the sides of a terminal; the kernel counts to 65535.
	maxSide = 1<<16 - 1
	// sizeWithin is how long a program that gets a terminal waits for its size.
	sizeWithin = 250 * time.Millisecond
	// stillThere is how often it is seen whether a caller is there whose input waits: it
	// is not read from then.
	stillThere = 10 * time.Second
)

// ErrGone says that the caller left before the program ended, or was sent away.
var ErrGone = errors.New("the caller is gone")

// Run runs a program until it ends or ctx does (drivers.Execer).
type Run func(ctx context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error)

// Session is one program that a caller far away runs.
type Session struct {
	Command []string
	Tty     bool
	Run     Run
}

// Serve runs the program and connects it to the stream. It returns how the program ended,
// which the caller was told then, or why it could not be started, which it was not.
func (s Session) Serve(ctx context.Context, st *rpc.Stream) (*drivers.ExitResult, error) {
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	in := newInput()
	defer in.stop()
	defer context.AfterFunc(ctx, in.stop)()
	sizes := make(chan drivers.TerminalSize, 1)
	begun := make(chan struct{})
	go func() {
		defer gone()
		receive(st, in, sizes, begun)
	}()
	go in.probe(ctx, func() {
		if send(st, &nomad.ExecOutput{}) != nil {
			gone()
		}
	})
	o := &drivers.ExecOptions{Command: s.Command, Tty: s.Tty, Stdin: in,
		Stdout: &output{st, gone, func(io *nomad.ExecIO) *nomad.ExecOutput { return &nomad.ExecOutput{Stdout: io} }},
		Stderr: &output{st, gone, func(io *nomad.ExecIO) *nomad.ExecOutput { return &nomad.ExecOutput{Stderr: io} }}}
	if s.Tty {
		o.Resize = sizes
		awaitSize(ctx, begun)
	}
	exit, err := s.Run(ctx, o)
	switch {
	case ctx.Err() != nil:
		return nil, ErrGone
	case err != nil:
		return nil, err
	}
	tellEnd(st, exit)
	return exit, nil
}

// awaitSize gives the caller time to say how large its terminal is.
func awaitSize(ctx context.Context, begun <-chan struct{}) {
	late := time.NewTimer(sizeWithin)
	defer late.Stop()
	select {
	case <-begun:
	case <-late.C:
	case <-ctx.Done():
	}
}

// receive takes what the caller sends until it is gone. Begun is closed by the first
// message.
func receive(st *rpc.Stream, in *input, sizes chan drivers.TerminalSize, begun chan struct{}) {
	for first := true; ; first = false {
		var msg nomad.ExecInput
		if st.DecodeWithin(&msg, maxInput) != nil {
			return
		}
		if size := msg.TtySize; size != nil && size.Height > 0 && size.Width > 0 {
			select {
			case <-sizes: // only the last one counts
			default:
			}
			sizes <- drivers.TerminalSize{Height: min(int(size.Height), maxSide), Width: min(int(size.Width), maxSide)}
		}
		if first {
			close(begun)
		}
		if msg.Stdin == nil {
			continue
		}
		in.put(msg.Stdin.Data)
		if msg.Stdin.Close {
			in.end()
		}
	}
}

// tellEnd sends the last messages. Nobody may be there to read them.
func tellEnd(st *rpc.Stream, exit *drivers.ExitResult) {
	for _, msg := range []*nomad.ExecOutput{
		{Stdout: &nomad.ExecIO{Close: true}}, {Stderr: &nomad.ExecIO{Close: true}},
		{Exited: true, Result: &nomad.ExecResult{ExitCode: int32(exit.ExitCode), Signal: int32(exit.Signal), OomKilled: exit.OOMKilled}},
	} {
		if send(st, msg) != nil {
			return
		}
	}
}
