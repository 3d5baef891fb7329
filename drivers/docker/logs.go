package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/logfaults"
)

// pipes are the FIFOs of a task's output. A nil value discards it.
type pipes struct {
	out, err *os.File
	close    sync.Once
}

// Close closes the FIFOs; it ends a write that blocks.
func (p *pipes) Close() {
	if p != nil {
		p.close.Do(func() { p.out.Close(); p.err.Close() }) //nolint:errcheck // pipes
	}
}

// logPatience limits a request to the supervisor.
const logPatience = 30 * time.Second

// openLogs has the output of a task collected, and opens its FIFOs.
func (d *Driver) openLogs(ctx context.Context, t *task) (*pipes, error) {
	s := t.state
	stdout, stderr := s.Stdout, s.Stderr
	if stdout == "" && stderr == "" {
		if s.NoLogs {
			return nil, nil
		}
		dir, err := filepath.Rel(s.AllocDir, s.LogDir)
		if err != nil || !filepath.IsLocal(dir) {
			return nil, fmt.Errorf("log directory %s is not inside the allocation's directory", s.LogDir)
		}
		ctx, cancel := context.WithTimeout(ctx, logPatience)
		defer cancel()
		stdout, stderr, err = d.cfg.Logs.Collect(ctx, t.id, proc.Logs{Root: s.AllocDir, Dir: dir, Name: s.Name,
			MaxFiles: max(s.MaxFiles, 1), MaxBytes: int64(max(s.MaxFileMB, 1)) << 20})
		if err != nil {
			return nil, err
		}
	}
	out, err := openPipe(stdout)
	if err != nil {
		return nil, err
	}
	errs, err := openPipe(stderr)
	if err != nil {
		out.Close() //nolint:errcheck // a pipe
		return nil, err
	}
	return &pipes{out: out, err: errs}, nil
}

// openPipe opens a FIFO, also for reading, so that a collector that is started again loses nothing.
func openPipe(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open log pipe: %w", err)
	}
	return f, nil
}

// endLogs ends the collection of a task's output, when everything written is in the log files.
func (d *Driver) endLogs(t *task) {
	if t.state.NoLogs || t.state.Stdout != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), logPatience)
	defer cancel()
	if _, err := d.cfg.Logs.Kill(ctx, t.id); err != nil && !errors.Is(err, proc.ErrUnknownTask) {
		d.log.Warn("end the collection of logs", "task", t.id, "err", err)
	}
}

// forgetLogs drops the collection of a task's output.
func (d *Driver) forgetLogs(t *task) {
	d.endLogs(t)
	if t.state.NoLogs || t.state.Stdout != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), logPatience)
	defer cancel()
	if err := d.cfg.Logs.Forget(ctx, t.id); err != nil && !errors.Is(err, proc.ErrUnknownTask) {
		d.log.Warn("drop the collection of logs", "task", t.id, "err", err)
	}
}

// unreadable reports whether an error is about a logger of the daemon that only writes.
func unreadable(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "configured logging driver does not support reading") ||
		strings.Contains(err.Error(), "not implemented"))
}

// copyLogs copies the output of a container, after what was copied before, until the container ends.
func (d *Driver) copyLogs(ctx context.Context, t *task, have *copied) {
	if t.pipes == nil {
		return
	}
	wait := d.cfg.Pace.Retry
	for {
		err := d.copyOnce(ctx, t, have)
		if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
			return
		}
		if unreadable(err) {
			d.event(t.id, logfaults.Event, "the output of the container is not collected: its logging driver cannot be read", nil)
			return
		}
		if err == nil && !d.runs(ctx, t.container) {
			err = d.finish(ctx, t, have)
			if err == nil || ctx.Err() != nil || ended(err) {
				return
			}
		}
		d.log.Debug("copy the output of a container", "task", t.id, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, maxRetry)
	}
}

// runs reports whether a container runs. It is true while the daemon does not answer.
func (d *Driver) runs(ctx context.Context, container string) bool {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	found, err := d.api.ContainerInspect(ctx, container, client.ContainerInspectOptions{})
	if err != nil {
		return !ended(err)
	}
	return found.Container.State != nil && found.Container.State.Running
}

// copied is what was copied of the output of a container: the time of the last part, and the end of
// each stream.
type copied struct {
	at        time.Time
	out, errs bytes.Buffer
}

// timed writes to a FIFO, and records what it has written.
type timed struct {
	to   io.Writer
	all  *copied
	tail *bytes.Buffer
}

// Write implements io.Writer.
func (w *timed) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if n > 0 {
		w.all.at = time.Now()
		w.tail.Write(p[:n])
		w.tail.Next(max(0, w.tail.Len()-maxTail))
	}
	return n, err
}

// maxTail limits the end of a stream that is kept for the comparison with the daemon's log.
const maxTail = 64 << 10

// finish copies the output of a container that has ended and that following its log has missed: the
// daemon may end the stream before the last lines.
func (d *Driver) finish(ctx context.Context, t *task, have *copied) error {
	since := logStart
	if !have.at.IsZero() {
		since = have.at.Add(-copyLag)
	}
	out, errs, err := d.window(ctx, t, since, time.Now())
	if err != nil {
		return err
	}
	for _, s := range []struct {
		had  []byte
		tail *bytes.Buffer
		to   *os.File
	}{{out, &have.out, t.pipes.out}, {errs, &have.errs, t.pipes.err}} {
		if s.tail.Len() >= maxTail {
			s.had = s.had[max(0, len(s.had)-maxTail):] // the rest was copied
		}
		if _, err := s.to.Write(s.had[overlap(s.had, s.tail.Bytes()):]); err != nil {
			return err
		}
	}
	return nil
}

// logStart is before the first output of every container.
var logStart = time.Unix(1, 0)

// copyOnce follows the output of a container until the container or the connection ends.
func (d *Driver) copyOnce(ctx context.Context, t *task, have *copied) error {
	opts := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true}
	if !have.at.IsZero() {
		opts.Since = logTime(have.at)
	}
	from, err := d.api.ContainerLogs(ctx, t.container, opts)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // a stream that was read
	out, errs := &timed{t.pipes.out, have, &have.out}, &timed{t.pipes.err, have, &have.errs}
	if t.state.Tty {
		_, err = io.Copy(out, from)
	} else {
		_, err = stdcopy.StdCopy(out, errs, from)
	}
	return err
}

// reportLogs reports logs that cannot be written, until ctx ends.
func (d *Driver) reportLogs(ctx context.Context, tell func(*drivers.TaskEvent)) {
	w := logfaults.Watcher{Faulty: d.cfg.Logs.FaultyTasks, Idle: d.idle, Has: d.has}
	w.Run(ctx, tell)
}

func (d *Driver) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tasks) == 0
}

func (d *Driver) has(id string) bool {
	_, err := d.task(id)
	return err == nil
}
