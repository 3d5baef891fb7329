package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/memfd"
	"github.com/open-nomad/open-nomad/internal/sidecar"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	maxMessages = 20_000
	maxStderr   = 2 << 10
	// drainTime is how long the output of an ended program is read. A descendant could hold it open.
	drainTime = 5 * time.Second
)

// step runs the program for one request. A limit that the program exceeded is reported rather than what the
// program has sent.
func (j *job) step(ctx context.Context, req *fetch.Request) (fetch.Message, error) {
	req.Mode, req.Insecure = j.mode, j.artifact.GetterInsecure
	req.Limits, req.Timeouts = j.cfg.Limits, j.cfg.Timeouts
	limit := req.Timeouts.Longest() + margin
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not finished within %v", limit))
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	out, err := newOutput()
	if err != nil {
		return fetch.Message{}, err
	}
	side, err := j.sidecar(req, out)
	if err != nil {
		out.close()
		return fetch.Message{}, err
	}
	defer side.Stdio[0].Close()
	var watches sync.WaitGroup
	watched, stop := context.WithCancel(ctx)
	watches.Go(func() {
		if err := j.watch(watched, req); err != nil {
			abort(err)
		}
	})
	watches.Go(func() {
		if err := out.read(j.report); err != nil {
			abort(err)
		}
	})
	exit, err := j.task.Run(ctx, side)
	stop()
	out.ended()
	watches.Wait()
	out.close()
	if err != nil && ctx.Err() == nil {
		return fetch.Message{}, fmt.Errorf("start the program: %w", err)
	}
	if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil {
		return fetch.Message{}, cause
	}
	return out.result(exit)
}

// sidecar returns the program with its confinement.
func (j *job) sidecar(req *fetch.Request, out *output) (*drivers.Sidecar, error) {
	program, err := sidecar.Program(sidecar.Fetch)
	if err != nil {
		return nil, err
	}
	text, err := req.Encode()
	if err != nil {
		return nil, err
	}
	in, err := memfd.New("request", text)
	if err != nil {
		return nil, err
	}
	work := j.stage.path(j.task, workName)
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
	if req.Archive == "" {
		maps.Copy(env, j.cfg.Env)
	}
	env["HOME"], env["TMPDIR"] = path.Join(work, fetch.HomeName), path.Join(work, fetch.TempName)
	return &drivers.Sidecar{
		Program: program, Args: []string{sidecar.Fetch}, Env: env, Dir: work,
		Paths: j.paths(req), Hide: j.task.hidden(), Stdio: [3]*os.File{in, out.stdout.write, out.stderr.write},
		Limits:     drivers.SidecarLimits{FileSize: j.fileSize(req)},
		NoTCP:      req.Archive != "" && !j.cfg.Unconfined && tcpABI(),
		Unconfined: j.cfg.Unconfined,
	}, nil
}

// tcpABI reports whether the kernel can restrict TCP.
func tcpABI() bool {
	abi, err := landlock.ABI()
	return err == nil && abi >= landlock.ABITCP
}

// report handles the progress of the program.
func (j *job) report(m fetch.Message) {
	if j.task.Progress != nil {
		j.task.Progress(j.index, Progress{Source: j.source.String(), Bytes: max(m.Bytes, 0), Total: max(m.Total, 0)})
	}
}

// output is what the program writes.
type output struct {
	stdout, stderr pipe
	last           fetch.Message
	tail           []byte // of stderr
	done           sync.WaitGroup
}

type pipe struct{ read, write *os.File }

func newOutput() (*output, error) {
	o := &output{}
	for _, p := range []*pipe{&o.stdout, &o.stderr} {
		var err error
		if p.read, p.write, err = os.Pipe(); err != nil {
			o.close()
			return nil, fmt.Errorf("make pipe: %w", err)
		}
	}
	return o, nil
}

// read reads until the program and its descendants have closed both pipes.
func (o *output) read(progress func(fetch.Message)) error {
	o.done.Go(func() {
		buf := make([]byte, maxStderr)
		for {
			n, err := o.stderr.read.Read(buf)
			o.tail = append(o.tail, buf[:n]...)
			o.tail = o.tail[max(len(o.tail)-maxStderr, 0):]
			if err != nil {
				return
			}
		}
	})
	defer o.done.Wait()
	n := 0
	err := fetch.Read(o.stdout.read, func(m fetch.Message) error {
		if n++; n > maxMessages {
			return fmt.Errorf("more than %d messages", maxMessages)
		}
		if m.Kind == fetch.Progress {
			progress(m)
			return nil
		}
		o.last = m
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("read the output of the program: %w", err)
	}
	return nil
}

// ended closes the writing ends, when the program has ended.
func (o *output) ended() {
	for _, p := range []*pipe{&o.stdout, &o.stderr} {
		p.write.Close()
		p.read.SetReadDeadline(time.Now().Add(drainTime)) //nolint:errcheck // pipes support it
	}
}

func (o *output) close() {
	for _, p := range []*pipe{&o.stdout, &o.stderr} {
		for _, f := range []io.Closer{p.read, p.write} {
			if f != (*os.File)(nil) {
				f.Close() //nolint:errcheck // may be closed already
			}
		}
	}
}

// result returns the last message of a program that has exited.
func (o *output) result(exit *drivers.ExitResult) (fetch.Message, error) {
	switch {
	case exit == nil:
		return fetch.Message{}, errors.New("the program has no exit status")
	case exit.OOMKilled:
		return fetch.Message{}, errors.New("the download needs more memory than the task may use: increase memory in resources")
	case o.last.Kind == fetch.Failed:
		return fetch.Message{}, errors.New(o.last.Text)
	case exit.Signal != 0:
		return fetch.Message{}, fmt.Errorf("the program was ended by signal %d", exit.Signal)
	case exit.Err != nil:
		return fetch.Message{}, exit.Err
	case exit.ExitCode != 0 || o.last.Kind != fetch.Done:
		return fetch.Message{}, fmt.Errorf("the program exited with status %d: %s", exit.ExitCode, fetch.Clean(string(o.tail)))
	}
	return o.last, nil
}
