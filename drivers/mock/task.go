package mock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// task is one mock task.
type task struct {
	id   string
	name string
	opts options
	done chan struct{} // closed when exited

	killOnce sync.Once
	killed   chan struct{} // closed by kill

	mu        sync.Mutex
	started   time.Time
	completed time.Time
	exit      *drivers.ExitResult
	crashed   bool // WaitTask has failed once for plugin_exit_after
}

func newTask(id string, s handleState) *task {
	return &task{id: id, name: s.Name, opts: s.Config, started: s.Started,
		done: make(chan struct{}), killed: make(chan struct{})}
}

// run waits for the end of the task and records it.
func (t *task) run() {
	timer := time.NewTimer(time.Until(t.started.Add(t.opts.RunFor)))
	defer timer.Stop()
	result := &drivers.ExitResult{ExitCode: t.opts.ExitCode, OOMKilled: t.opts.OOMKilled}
	select {
	case <-timer.C:
		if t.opts.ExitSignal != 0 {
			result.Signal, result.ExitCode = t.opts.ExitSignal, 128+t.opts.ExitSignal
		}
		if t.opts.ExitErr != "" {
			result.Err = errors.New(t.opts.ExitErr)
		}
	case <-t.killed:
		result = &drivers.ExitResult{ExitCode: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
	}
	t.mu.Lock()
	t.exit, t.completed = result, time.Now()
	t.mu.Unlock()
	close(t.done)
}

func (t *task) wait(ctx context.Context) (*drivers.ExitResult, error) {
	var crash <-chan time.Time
	t.mu.Lock()
	if t.opts.PluginExitAfter > 0 && !t.crashed {
		crash = time.After(time.Until(t.started.Add(t.opts.PluginExitAfter)))
	}
	t.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-crash:
		t.mu.Lock()
		t.crashed = true
		t.mu.Unlock()
		return nil, errors.New("plugin is shut down")
	case <-t.done:
		t.mu.Lock()
		defer t.mu.Unlock()
		r := *t.exit
		return &r, nil
	}
}

// stop ends the task after kill_after, or after timeout if that is shorter.
func (t *task) stop(ctx context.Context, timeout time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.done:
		return nil
	case <-time.After(min(t.opts.KillAfter, timeout)):
	}
	t.kill()
	return nil
}

// kill ends the task and waits until its exit is recorded.
func (t *task) kill() {
	t.killOnce.Do(func() { close(t.killed) })
	<-t.done
}

func (t *task) status() drivers.TaskStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := drivers.TaskStatus{ID: t.id, Name: t.name, State: drivers.TaskRunning, StartedAt: t.started}
	if t.exit != nil {
		exit := *t.exit
		s.State, s.CompletedAt, s.Exit = drivers.TaskExited, t.completed, &exit
	}
	return s
}

// print writes both streams to their log files until they are complete or the task has exited.
func (t *task) print(log *slog.Logger, dir, name string) {
	for stream, out := range map[string]output{"stdout": t.opts.Stdout, "stderr": t.opts.Stderr} {
		if out.Text == "" {
			continue
		}
		f, err := openLog(dir, fmt.Sprintf("%s.%s.0", name, stream))
		if err != nil {
			log.Warn("open log file", "task", t.id, "err", err)
			continue
		}
		// The first line is written before StartTask returns.
		if _, err := io.WriteString(f, out.Text); err != nil {
			log.Warn("write log file", "task", t.id, "err", err)
		}
		go t.repeat(log, f, out)
	}
}

func (t *task) repeat(log *slog.Logger, f *os.File, out output) {
	defer f.Close()
	for range out.Repeat {
		select {
		case <-t.done:
			return
		case <-time.After(out.Every):
		}
		if _, err := io.WriteString(f, out.Text); err != nil {
			log.Warn("write log file", "task", t.id, "err", err)
			return
		}
	}
}

// openLog opens a file below the log directory.
func openLog(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
