// Package supervise is the agent's side of the supervisor: one process per client that keeps the tasks, and the
// collection of their logs, running independently of the agent. Client starts, signals and ends tasks by requests to
// it. The supervisor itself is in package server, and both sides meet in package wire only.
//
//	supervise (Client) ──wire, unix socket──▶ server ──fork──▶ stage ──execve──▶ task
//	                                            ▲ logs: splice                    │
//	                         <task>.stdout.N ◀──┘◀────── fifo, open O_RDWR ───────┘
//
//	          ┌────────── Start fails ──────────▶ (gone)
//	(none) ── Start ──▶ running ──exit, Kill──▶ exited ──Forget──▶ (gone)
//
// A Client starts the supervisor of its directory when it first needs one, connects again when the connection is
// lost, and upgrades a supervisor of another build in place. When the agent dies, the supervisor and its tasks
// continue, and the next agent finds the socket. An agent that stops without tasks ends the supervisor at once
// (CloseAndStopIdle).
//
// The supervisor also collects the logs of tasks that another program runs, such as an external driver. Collect makes
// the FIFOs, Kill ends the collection, and Forget removes it. Such a task has no process here.
//
// The supervisor also keeps copies of sockets of the agent, so that they stay bound while no agent runs (sockets.go).
// A new agent copies them before it upgrades the supervisor: an upgrade closes them, also one to an earlier build.
//
// An exit is reported when all output of the task is in its log files. An unknown exit status is reported as an error,
// never guessed. A start whose answer was lost is not repeated: the Client asks the next supervisor for its outcome.
//
// Packages: proc has the parameters and results, wire the protocol, turns the number of starts at a time, server the
// supervisor, and logs the log files that it writes. The Client has one goroutine per connection, which reads answers.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/supervise/turns"
	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// ErrLost means that the connection to the supervisor broke during a request.
var ErrLost = errors.New("connection to the supervisor was lost")

// Client is the agent's side. It finds the supervisor of its directory, or starts one when it is
// first needed. If the connection is lost, it does so again.
type Client struct {
	log     *slog.Logger
	dir     string
	uid     int           // uid of the agent
	timeout time.Duration // how long a refused upgrade is retried
	turns   turns.Turns
	gate    chan struct{} // holds one token, whose holder may change current
	current *session
	sockets []int // see KeepSockets; nil before
	closed  bool
}

// NewClient returns a client for the supervisor in dir, such as <data_dir>/client/supervise. It
// does not connect yet.
func NewClient(dir string, log *slog.Logger) *Client {
	c := &Client{log: log, dir: dir, uid: os.Geteuid(), timeout: upgradeTimeout, turns: turns.ForPreparing(),
		gate: make(chan struct{}, 1)}
	c.gate <- struct{}{}
	return c
}

// Dir returns the supervisor's directory, which tasks must not see.
func (c *Client) Dir() string { return c.dir }

// Turn waits until the caller may prepare a start. The caller calls done after Start.
func (c *Client) Turn() (done func()) { return c.turns.Take() }

// Start starts a task and returns when its program has been executed. A failure
// of the task itself is a *proc.StartError.
func (c *Client) Start(ctx context.Context, spec *proc.Spec) (*proc.Task, error) {
	s, err := c.ready(ctx)
	if err != nil {
		return nil, fmt.Errorf("start task %s: %w", spec.ID, err)
	}
	resp, err := s.call(ctx, &wire.Request{Op: wire.OpStart, Spec: spec})
	if errors.Is(err, ErrLost) {
		return c.outcome(ctx, spec.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("start task %s: %w", spec.ID, err)
	}
	return resp.Task, nil
}

// outcome determines the result of a start whose answer was lost with the supervisor. Only
// ErrUnknownTask from the next supervisor means that the task does not run.
func (c *Client) outcome(ctx context.Context, id string) (*proc.Task, error) {
	for {
		t, err := c.Task(ctx, id)
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, proc.ErrUnknownTask):
			return nil, fmt.Errorf("start task %s: %w", id, ErrLost)
		case ctx.Err() != nil: // the start may still have succeeded
			return nil, fmt.Errorf("start task %s: the outcome is unknown: %w: the last answer was: %w", id, ctx.Err(), err)
		case errors.Is(err, errClosed):
			return nil, fmt.Errorf("start task %s: the outcome is unknown: %w", id, err)
		}
		c.log.Warn("retry the query for the outcome of a start", "task", id, "err", err)
		backoff.Sleep(ctx, outcomePause) // the next query fails if ctx ended
	}
}

// outcomePause is the interval of queries for the outcome of a start.
const outcomePause = time.Second

// ready returns a session that accepts starts. It first retries the upgrade of a supervisor of
// another build. If tasks have the agent's uid, it refuses a supervisor without a secret: a task
// could use it to start programs without a sandbox.
func (c *Client) ready(ctx context.Context) (*session, error) {
	s, err := c.session(ctx)
	if err == nil && s.outdated && c.tryUpgrade(ctx, s) == nil {
		s.close()
		s, err = c.session(ctx)
	}
	if err == nil && s.unguarded && c.uid != 0 {
		err = errors.New("the supervisor is of an earlier version, which does not protect its socket from tasks, and could not be upgraded")
	}
	return s, err
}

// Tasks lists the tasks of the supervisor.
func (c *Client) Tasks(ctx context.Context) ([]proc.Task, error) {
	return c.list(ctx, &wire.Request{Op: wire.OpList})
}

// FaultyTasks lists the tasks with logs that cannot be written. A supervisor of an earlier version lists
// all tasks.
func (c *Client) FaultyTasks(ctx context.Context) ([]proc.Task, error) {
	return c.list(ctx, &wire.Request{Op: wire.OpList, Faulty: true})
}

// RecordedTasks is Tasks, but starts no supervisor if no task is recorded. A record exists before its task
// is started.
func (c *Client) RecordedTasks(ctx context.Context) ([]proc.Task, error) {
	records, err := os.ReadDir(filepath.Join(c.dir, "tasks"))
	if os.IsNotExist(err) || err == nil && len(records) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read task records: %w", err)
	}
	return c.Tasks(ctx)
}

func (c *Client) list(ctx context.Context, req *wire.Request) ([]proc.Task, error) {
	resp, err := c.retry(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return resp.Tasks, nil
}

// Task returns one task.
func (c *Client) Task(ctx context.Context, id string) (*proc.Task, error) {
	return c.one(ctx, &wire.Request{Op: wire.OpTask, ID: id})
}

// Brief returns one task without Declared, which is many times larger than the rest.
func (c *Client) Brief(ctx context.Context, id string) (*proc.Task, error) {
	return c.one(ctx, &wire.Request{Op: wire.OpTask, ID: id, Brief: true})
}

// Wait blocks until the task has ended and its logs are complete. It continues with the next
// supervisor: only ctx and an unknown task end it early.
func (c *Client) Wait(ctx context.Context, id string) (*proc.Exit, error) {
	t, err := c.one(ctx, &wire.Request{Op: wire.OpWait, ID: id})
	if err != nil {
		return nil, err
	}
	return t.Exit, nil
}

// Collect makes FIFOs for stdout and stderr of a task that another program runs, and moves what is
// written to them to rotated log files. It returns their paths. It is idempotent. Kill ends the
// collection, when everything written before is in the log files; Forget removes the FIFOs.
func (c *Client) Collect(ctx context.Context, id string, logs proc.Logs) (stdout, stderr string, err error) {
	if _, err := c.ready(ctx); err != nil {
		return "", "", fmt.Errorf("collect logs of task %s: %w", id, err)
	}
	t, err := c.one(ctx, &wire.Request{Op: wire.OpCollect, ID: id, Spec: &proc.Spec{ID: id, Logs: logs}})
	if err != nil {
		return "", "", err
	}
	if len(t.Pipes) != len(proc.Streams) {
		return "", "", fmt.Errorf("collect logs of task %s: the supervisor runs a task with this ID", id)
	}
	return t.Pipes[0], t.Pipes[1], nil
}

// Signal sends a signal to the task's process group.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpSignal, ID: id, Signal: int(sig)})
	return wrap("signal", id, err)
}

// SignalMain sends a signal to the task's main process only.
func (c *Client) SignalMain(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpSignal, ID: id, Signal: int(sig), Main: true})
	return wrap("signal", id, err)
}

// Kill ends every process of the task and returns its exit.
func (c *Client) Kill(ctx context.Context, id string) (*proc.Exit, error) {
	t, err := c.one(ctx, &wire.Request{Op: wire.OpKill, ID: id})
	if err != nil {
		return nil, err
	}
	return t.Exit, nil
}

// Forget removes an exited task. An unknown task is not an error.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.retry(ctx, &wire.Request{Op: wire.OpForget, ID: id})
	if errors.Is(err, proc.ErrUnknownTask) {
		return nil
	}
	return wrap("forget", id, err)
}

// Upgrade replaces the supervisor's program by this agent's, in place; tasks continue. A client
// does this by itself when it connects to a supervisor of another build.
func (c *Client) Upgrade(ctx context.Context) error {
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	return c.upgrade(ctx, s)
}

// Shutdown kills every task, ends the supervisor and waits for its end. It does not start one.
func (c *Client) Shutdown(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.gate:
	}
	s := c.current
	c.gate <- struct{}{}
	if s == nil || s.lost() {
		dir, err := os.Open(c.dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("shut the supervisor down: %w", err)
		}
		defer dir.Close()
		key, err := wire.EnsureSecret(dir)
		if err != nil {
			return fmt.Errorf("shut the supervisor down: %w", err)
		}
		if s, _, err = open(ctx, dir, key); errors.Is(err, errNotLiving) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("shut the supervisor down: %w", err)
		}
		defer s.close()
	}
	if _, err := s.call(ctx, &wire.Request{Op: wire.OpShutdown}); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("shut the supervisor down: %w", err)
	}
	return s.ended(ctx)
}

// CloseAndStopIdle is Close, and also ends a supervisor without tasks and other clients, and waits for its
// end.
func (c *Client) CloseAndStopIdle(ctx context.Context) error {
	<-c.gate
	s := c.current
	c.gate <- struct{}{}
	defer c.Close() //nolint:errcheck // it never fails
	if s == nil || s.lost() {
		return nil
	}
	if _, err := s.call(ctx, &wire.Request{Op: wire.OpStopIdle}); err != nil && !errors.Is(err, ErrLost) {
		return ctx.Err() // tasks continue, or an earlier build ends a little later
	}
	return s.ended(ctx)
}

// Close disconnects from the supervisor; tasks continue.
func (c *Client) Close() error {
	<-c.gate
	c.closed = true
	if c.current != nil {
		c.current.close()
		c.current = nil
	}
	c.setSockets(nil)
	c.gate <- struct{}{}
	return nil
}

func wrap(what, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s task %s: %w", what, id, err)
}

func (c *Client) one(ctx context.Context, req *wire.Request) (*proc.Task, error) {
	resp, err := c.retry(ctx, req)
	if err != nil {
		return nil, wrap(req.Op, req.ID, err)
	}
	return resp.Task, nil
}

// call sends a request once. ErrLost means that the request may have been executed.
func (c *Client) call(ctx context.Context, req *wire.Request) (*wire.Response, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, req)
}

// retry repeats an idempotent request, with the next supervisor if necessary.
func (c *Client) retry(ctx context.Context, req *wire.Request) (*wire.Response, error) {
	again := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for {
		resp, err := c.call(ctx, req)
		if err == nil || !errors.Is(err, ErrLost) {
			return resp, err
		}
		if err := again.Wait(ctx); err != nil {
			return nil, err
		}
	}
}
