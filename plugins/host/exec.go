package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// ExecTask implements drivers.Execer. The driver decides on the environment, which the protocol does
// not carry. A driver without sessions runs the command without input, if it has no terminal.
func (d *Driver) ExecTask(ctx context.Context, id string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	if !d.has(id) {
		return nil, drivers.ErrTaskNotFound
	}
	p, err := d.live(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exit, err := execSession(ctx, p, id, o)
	if wire.IsUnimplemented(err) && !o.Tty {
		exit, err = execOnce(ctx, p, id, o)
	}
	if wire.IsUnimplemented(err) {
		return nil, drivers.ErrNoExec
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return nil, fmt.Errorf("the session was ended: %w", cause)
	}
	return exit, wire.DecodeError(err)
}

// errNoExit means that a session ended without the exit of its program.
var errNoExit = errors.New("the driver ended the session without an exit status")

// execSession runs a session. Only this function sends to Stdout and Stderr.
func execSession(ctx context.Context, p *process, id string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	stream, err := p.driver.ExecTaskStreaming(ctx)
	if err != nil {
		return nil, err
	}
	s := &sender{stream: stream}
	if err := s.send(&proto.ExecTaskStreamingRequest{Setup: &proto.ExecTaskStreamingRequest_Setup{TaskId: id, Command: o.Command,
		Tty: o.Tty}}); err != nil {
		_, err = stream.Recv() // it has the reason
		return nil, err
	}
	select { // a pending size is sent first: a driver may wait for it before it reads input
	case size := <-o.Resize:
		if err := s.size(size); err != nil {
			return nil, err
		}
	default:
	}
	go s.input(o.Stdin) // ends with the caller's input
	done := make(chan struct{})
	var resizing sync.WaitGroup
	defer resizing.Wait()
	defer close(done)
	if o.Resize != nil {
		resizing.Go(func() { s.sizes(o.Resize, done) })
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, errNoExit
		}
		if err != nil {
			return nil, err
		}
		if err := errors.Join(pass(o.Stdout, m.GetStdout().GetData()), pass(o.Stderr, m.GetStderr().GetData())); err != nil {
			return nil, err
		}
		if m.GetExited() {
			exit := wire.DecodeExit(m.GetResult())
			if exit == nil {
				return nil, errNoExit
			}
			return exit, nil
		}
	}
}

// pass passes on a part of the output, if there is any.
func pass(to io.Writer, data []byte) error {
	if len(data) == 0 || to == nil {
		return nil
	}
	if _, err := to.Write(data); err != nil {
		return fmt.Errorf("pass on the output of the session: %w", err)
	}
	return nil
}

// sender sends one message at a time.
type sender struct {
	mu     sync.Mutex
	stream interface {
		Send(*proto.ExecTaskStreamingRequest) error
	}
}

func (s *sender) send(m *proto.ExecTaskStreamingRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(m)
}

// inputChunk is the size of a part of the input.
const inputChunk = 16 << 10

func (s *sender) input(in io.Reader) {
	buf := make([]byte, inputChunk)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			data := append([]byte(nil), buf[:n]...)
			if s.send(&proto.ExecTaskStreamingRequest{Stdin: &proto.IOOperation{Data: data}}) != nil {
				return
			}
		}
		if err != nil {
			s.send(&proto.ExecTaskStreamingRequest{Stdin: &proto.IOOperation{Close: true}}) //nolint:errcheck // the session may have ended
			return
		}
	}
}

func (s *sender) sizes(sizes <-chan drivers.TerminalSize, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case size := <-sizes:
			if s.size(size) != nil {
				return
			}
		}
	}
}

func (s *sender) size(size drivers.TerminalSize) error {
	return s.send(&proto.ExecTaskStreamingRequest{TtySize: &proto.ExecTaskStreamingRequest_TerminalSize{Height: int32(size.Height),
		Width: int32(size.Width)}})
}

// execTimeout limits a command that is run without a session.
const execTimeout = 10 * time.Minute

// execOnce runs a command without input and passes on its output when it has ended.
func execOnce(ctx context.Context, p *process, id string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	resp, err := p.driver.ExecTask(ctx, &proto.ExecTaskRequest{TaskId: id, Command: o.Command, Timeout: wire.EncodeDuration(execTimeout)})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(pass(o.Stdout, resp.GetStdout()), pass(o.Stderr, resp.GetStderr())); err != nil {
		return nil, err
	}
	exit := wire.DecodeExit(resp.GetResult())
	if exit == nil {
		return nil, errNoExit
	}
	return exit, nil
}
