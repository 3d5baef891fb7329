package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/readproxy"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/sidecar"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// pace is the minimum time between two frames that are not contents. It bounds the work that a
// program can cause.
const pace = 10 * time.Millisecond

// session is one run of the program.
type session struct {
	confined *Confinement
	dir      string // the working directory
	paths    []drivers.SidecarPath
	open     bool // without Landlock
	noTCP    bool
	req      *render.Request
	// reads serve the requests to Consul and Vault, by their host. Without any, the program has no connection for them.
	reads map[string]http.Handler
	// content handles the text of a template. other handles the frames up to the last one.
	content func(template int, body io.Reader, size int) error
	other   func(f *render.Frame) error
}

// failure is a template that cannot be rendered, as the program reports it.
type failure struct{ render.Fatal }

// Error returns the text of the program.
func (f *failure) Error() string { return f.Text }

// startError is the error of a program that could not be started.
type startError struct{ err error }

// Error returns what was attempted and the cause.
func (e *startError) Error() string {
	return "start the program that renders templates: " + e.err.Error()
}

// Unwrap returns the cause.
func (e *startError) Unwrap() error { return e.err }

// run runs the program until it ends. The error is nil if it has nothing more to do. Otherwise it is a
// *failure, a *startError, the error of a handler or of ctx, or a description of the program's death.
func (s *session) run(ctx context.Context) error {
	program, err := sidecar.Program(sidecar.Render)
	if err != nil {
		return &startError{err}
	}
	stdin, send, receive, stdout, err := pipes()
	if err != nil {
		return &startError{err}
	}
	defer receive.Close()
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	var stderr *os.File
	if len(s.reads) > 0 {
		conn, theirs, err := pair()
		if err != nil {
			stdin.Close() // unused
			stdout.Close()
			send.Close()
			return &startError{err}
		}
		stderr = theirs
		work.Go(func() { readproxy.Serve(runCtx, conn, s.reads) })
	}
	work.Go(func() {
		defer send.Close() // its end also ends the program
		_ = json.NewEncoder(send).Encode(s.req)
		<-runCtx.Done()
	})
	var exit *drivers.ExitResult
	exited := make(chan error, 1)
	work.Go(func() {
		var err error
		exit, err = s.confined.Run(runCtx, s.sidecar(program, [3]*os.File{stdin, stdout, stderr}))
		stdin.Close() // the copies of a program that has ended
		stdout.Close()
		if stderr != nil {
			stderr.Close()
		}
		exited <- err
	})
	last, err := s.read(runCtx, receive)
	cancel()
	runErr := <-exited
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case last == nil && runErr != nil:
		return &startError{runErr}
	case last == nil:
		return fmt.Errorf("the program that renders templates ended: %s", describe(exit))
	case last.Kind == render.KindDone:
		return nil
	}
	var f failure
	if err := last.Decode(&f.Fatal); err != nil {
		return err
	}
	return &f
}

// pipes returns the pipe to the program and the one from it.
func pipes() (stdin, send, receive, stdout *os.File, err error) {
	if stdin, send, err = os.Pipe(); err != nil {
		return nil, nil, nil, nil, err
	}
	if receive, stdout, err = os.Pipe(); err != nil {
		stdin.Close() // unused
		send.Close()
		return nil, nil, nil, nil, err
	}
	return stdin, send, receive, stdout, nil
}

// pair returns the ends of a connection: ours, and that of the program.
func pair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create the connection for reads of Consul and Vault: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "reads"), os.NewFile(uintptr(fds[1]), "reads")
	defer ours.Close() // FileConn has a copy
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close() // unused
		return nil, nil, fmt.Errorf("create the connection for reads of Consul and Vault: %w", err)
	}
	return conn, theirs, nil
}

func (s *session) sidecar(program *os.File, stdio [3]*os.File) *drivers.Sidecar {
	return &drivers.Sidecar{
		Program: program, Args: []string{sidecar.Render}, Env: render.Environment(), Dir: s.dir, Paths: s.paths,
		Stdio: stdio, NoTCP: s.noTCP, Unconfined: s.open,
	}
}

// describe describes the exit of the program.
func describe(exit *drivers.ExitResult) string {
	switch {
	case exit == nil:
		return "no exit status"
	case exit.OOMKilled:
		return "it needs more memory than the task may use: increase memory in resources"
	case exit.Signal != 0:
		return fmt.Sprintf("signal %d", exit.Signal)
	}
	return fmt.Sprintf("exit code %d", exit.ExitCode)
}

// read handles the frames of the program. It returns the last one, or nil if the stream ends without
// it.
func (s *session) read(ctx context.Context, from *os.File) (*render.Frame, error) {
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Now()) })
	defer stop()
	frames := render.NewReader(from)
	sent := map[int]bool{} // since the last pass
	for {
		f, err := frames.Next()
		switch {
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, fmt.Errorf("the program that renders templates: %w", err)
		case f.Kind == render.KindFatal || f.Kind == render.KindDone:
			return f, nil
		case f.Kind == render.KindContent:
			if f.Template >= len(s.req.Templates) || sent[f.Template] {
				return nil, errors.New("the program that renders templates sent an unexpected frame")
			}
			sent[f.Template] = true
			if err := s.content(f.Template, f.Body(), f.Size); err != nil {
				return nil, err
			}
			continue
		case f.Kind == render.KindPass:
			clear(sent)
		}
		if err := s.other(f); err != nil {
			return nil, fmt.Errorf("the program that renders templates: %w", err)
		}
		if err := backoff.Sleep(ctx, pace); err != nil {
			return nil, err
		}
	}
}
