package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// ExecTask implements drivers.Execer. The daemon cannot end a program that it has started in a
// container: with the end of ctx the program loses its input and its output.
func (d *Driver) ExecTask(ctx context.Context, id string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	size := client.ConsoleSize{}
	create := client.ExecCreateOptions{TTY: o.Tty, AttachStdin: o.Stdin != nil, AttachStdout: true, AttachStderr: true, Env: environ(o.Env),
		Cmd: o.Command}
	made, err := d.api.ExecCreate(ctx, t.container, create)
	if err != nil {
		return nil, fmt.Errorf("create the session: %w", err)
	}
	conn, err := d.api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: o.Tty, ConsoleSize: size})
	if err != nil {
		return nil, fmt.Errorf("start the session: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	done := make(chan struct{})
	var resizing sync.WaitGroup
	defer resizing.Wait()
	defer close(done)
	if o.Tty && o.Resize != nil {
		resizing.Go(func() { d.resize(ctx, made.ID, o.Resize, done) })
	}
	if o.Stdin != nil {
		go func() { // ends with the caller's input
			io.Copy(conn.Conn, o.Stdin) //nolint:errcheck // the session may have ended
			conn.CloseWrite()           //nolint:errcheck // likewise
		}()
	}
	if err := output(conn.Reader, o); err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("pass on the output of the session: %w", err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the session was ended: %w", context.Cause(ctx))
	}
	return d.execExit(ctx, made.ID)
}

// output passes on the output of a session until it ends.
func output(from io.Reader, o *drivers.ExecOptions) error {
	out, errs := o.Stdout, o.Stderr
	if out == nil {
		out = io.Discard
	}
	if errs == nil {
		errs = io.Discard
	}
	var err error
	if o.Tty {
		_, err = io.Copy(out, from)
	} else {
		_, err = stdcopy.StdCopy(out, errs, from)
	}
	return err
}

// resize passes on the sizes of a terminal.
func (d *Driver) resize(ctx context.Context, id string, sizes <-chan drivers.TerminalSize, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			if size.Height <= 0 || size.Width <= 0 {
				continue
			}
			d.resizeOnce(ctx, id, size, done)
		}
	}
}

// resizeOnce sets a size. The daemon refuses that before the program has started.
func (d *Driver) resizeOnce(ctx context.Context, id string, size drivers.TerminalSize, done <-chan struct{}) {
	for range resizeTries {
		_, err := d.api.ExecResize(ctx, id, client.ExecResizeOptions{Height: uint(size.Height), Width: uint(size.Width)})
		if err == nil {
			return
		}
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-time.After(execPoll):
		}
	}
}

// Intervals of a session.
const (
	execPoll     = 100 * time.Millisecond
	resizeTries  = 50
	exitPatience = 30 * time.Second
)

// errNoExit means that the daemon does not report the end of a session.
var errNoExit = errors.New("the daemon ended the session without an exit status")

// execExit returns the result of a session whose output has ended.
func (d *Driver) execExit(ctx context.Context, id string) (*drivers.ExitResult, error) {
	ctx, cancel := context.WithTimeout(ctx, exitPatience)
	defer cancel()
	for {
		state, err := d.api.ExecInspect(ctx, id, client.ExecInspectOptions{})
		if err != nil {
			return nil, fmt.Errorf("inspect the session: %w", err)
		}
		if !state.Running {
			return &drivers.ExitResult{ExitCode: state.ExitCode}, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(errNoExit, ctx.Err())
		case <-time.After(execPoll):
		}
	}
}
