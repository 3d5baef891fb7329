// Package exec runs the sessions of "alloc exec" on a node. It passes the caller's messages on
// an Allocations.Exec stream to the input of a program that a driver runs, and the program's
// output back.
//
//	stream ──ExecInput──▶ input (at most maxHeld) ──▶ driver's program
//	       ◀─ExecOutput── chunks of at most maxChunk ◀───────┘
//
// Buffers have fixed sizes: a program that does not read blocks its caller, and a caller that
// does not read blocks the program. A session ends with its program, its stream or its context;
// the driver then kills the program. Limits counts the sessions of a node.
//
// A session has three goroutines besides the caller's. They have ended, or are about to, when
// Serve returns. The package stores no data of a session.
package exec

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	// maxInput is the maximum size of a message from a caller.
	maxInput = 1 << 20
	// maxHeld is the maximum input that the program has not read yet.
	maxHeld = 128 << 10
	// maxChunk is the maximum output in one message.
	maxChunk = 16 << 10
	// maxSide is the maximum width and height of a terminal, as in the kernel.
	maxSide = 1<<16 - 1
	// sizeWithin is how long the start of a program with a terminal waits for the terminal's
	// size.
	sizeWithin = 250 * time.Millisecond
	// stillThere is the interval for checking that the caller is connected while its input
	// waits, since its messages are not read then.
	stillThere = 10 * time.Second
)

// ErrGone means that the caller disconnected before the program exited, or that the session was
// aborted.
var ErrGone = errors.New("the caller is gone")

// Run runs a program until it exits or ctx ends (drivers.Execer).
type Run func(ctx context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error)

// Session is one program run for a remote caller.
type Session struct {
	Command []string
	Tty     bool
	Run     Run
}

// Serve runs the program and connects it to the stream. It returns the exit result, which it
// has sent to the caller. If the program could not be started, it returns the error, which it
// has not sent.
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
		if send(st, &message.ExecOutput{}) != nil {
			gone()
		}
	})
	o := &drivers.ExecOptions{Command: s.Command, Tty: s.Tty, Stdin: in,
		Stdout: &output{st, gone, func(io *message.ExecIO) *message.ExecOutput { return &message.ExecOutput{Stdout: io} }},
		Stderr: &output{st, gone, func(io *message.ExecIO) *message.ExecOutput { return &message.ExecOutput{Stderr: io} }}}
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
	sendExit(st, exit)
	return exit, nil
}

// awaitSize waits for the caller's first message, which may hold the terminal size.
func awaitSize(ctx context.Context, begun <-chan struct{}) {
	late := time.NewTimer(sizeWithin)
	defer late.Stop()
	select {
	case <-begun:
	case <-late.C:
	case <-ctx.Done():
	}
}

// receive reads the caller's messages until it disconnects. The first message closes begun.
func receive(st *rpc.Stream, in *input, sizes chan drivers.TerminalSize, begun chan struct{}) {
	for first := true; ; first = false {
		var msg message.ExecInput
		if st.DecodeWithin(&msg, maxInput) != nil {
			return
		}
		if size := msg.TtySize; size != nil && size.Height > 0 && size.Width > 0 {
			select {
			case <-sizes: // keep only the newest size
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

// sendExit sends the last messages. The caller may already be gone.
func sendExit(st *rpc.Stream, exit *drivers.ExitResult) {
	for _, msg := range []*message.ExecOutput{
		{Stdout: &message.ExecIO{Close: true}}, {Stderr: &message.ExecIO{Close: true}},
		{Exited: true, Result: &message.ExecResult{ExitCode: int32(exit.ExitCode), Signal: int32(exit.Signal), OomKilled: exit.OOMKilled}},
	} {
		if send(st, msg) != nil {
			return
		}
	}
}
