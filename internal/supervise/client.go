package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// Client is the agent's side. It finds the supervisor of its directory, or starts one when it is
// first needed. If the connection is lost, it does so again.
type Client struct {
	log     *slog.Logger
	dir     string
	uid     int           // uid of the agent
	patient time.Duration // how long a refused upgrade is retried
	turns   turns
	gate    chan struct{} // holds one token, whose holder may change current
	current *session
	closed  bool
}

// NewClient returns a client for the supervisor in dir, such as <data_dir>/client/supervise. It
// does not connect yet.
func NewClient(dir string, log *slog.Logger) *Client {
	c := &Client{log: log, dir: dir, uid: os.Geteuid(), patient: upgradePatience, turns: newTurns(preparedPerCore, preparedLimit),
		gate: make(chan struct{}, 1)}
	c.gate <- struct{}{}
	return c
}

// Dir returns the supervisor's directory, which tasks must not see.
func (c *Client) Dir() string { return c.dir }

// Start starts a task and returns when its program has been executed. A failure
// of the task itself is a *proc.StartError.
func (c *Client) Start(ctx context.Context, spec *Spec) (*proc.Task, error) {
	s, err := c.ready(ctx)
	if err != nil {
		return nil, fmt.Errorf("start task %s: %w", spec.ID, err)
	}
	resp, err := s.call(ctx, &request{Op: opStart, Spec: spec})
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
	return c.list(ctx, &request{Op: opList})
}

// FaultyTasks lists the tasks with logs that cannot be written. A supervisor of an earlier version lists
// all tasks.
func (c *Client) FaultyTasks(ctx context.Context) ([]proc.Task, error) {
	return c.list(ctx, &request{Op: opList, Faulty: true})
}

func (c *Client) list(ctx context.Context, req *request) ([]proc.Task, error) {
	resp, err := c.retry(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return resp.Tasks, nil
}

// Task returns one task.
func (c *Client) Task(ctx context.Context, id string) (*proc.Task, error) {
	return c.one(ctx, &request{Op: opTask, ID: id})
}

// Brief returns one task without Declared, which is many times larger than the rest.
func (c *Client) Brief(ctx context.Context, id string) (*proc.Task, error) {
	return c.one(ctx, &request{Op: opTask, ID: id, Brief: true})
}

// Wait blocks until the task has ended and its logs are complete. It continues with the next
// supervisor: only ctx and an unknown task end it early.
func (c *Client) Wait(ctx context.Context, id string) (*proc.Exit, error) {
	t, err := c.one(ctx, &request{Op: opWait, ID: id})
	if err != nil {
		return nil, err
	}
	return t.Exit, nil
}

// Signal sends a signal to the task's process group.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := c.call(ctx, &request{Op: opSignal, ID: id, Signal: int(sig)})
	return wrap("signal", id, err)
}

// Kill ends every process of the task and returns its exit.
func (c *Client) Kill(ctx context.Context, id string) (*proc.Exit, error) {
	t, err := c.one(ctx, &request{Op: opKill, ID: id})
	if err != nil {
		return nil, err
	}
	return t.Exit, nil
}

// Forget removes an exited task. An unknown task is not an error.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.retry(ctx, &request{Op: opForget, ID: id})
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
		key, err := ensureSecret(dir)
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
	if _, err := s.call(ctx, &request{Op: opShutdown}); err != nil && !errors.Is(err, ErrLost) {
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
	if _, err := s.call(ctx, &request{Op: opRest}); err != nil && !errors.Is(err, ErrLost) {
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
	c.gate <- struct{}{}
	return nil
}

func wrap(what, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s task %s: %w", what, id, err)
}

func (c *Client) one(ctx context.Context, req *request) (*proc.Task, error) {
	resp, err := c.retry(ctx, req)
	if err != nil {
		return nil, wrap(req.Op, req.ID, err)
	}
	return resp.Task, nil
}

// call sends a request once. ErrLost means that the request may have been executed.
func (c *Client) call(ctx context.Context, req *request) (*response, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, req)
}

// retry repeats an idempotent request, with the next supervisor if necessary.
func (c *Client) retry(ctx context.Context, req *request) (*response, error) {
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

// errClosed means that the client was closed.
var errClosed = errors.New("the supervisor client is closed")

// session returns the current connection, or makes one.
func (c *Client) session(ctx context.Context) (*session, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.gate:
	}
	defer func() { c.gate <- struct{}{} }()
	if c.closed {
		return nil, errClosed
	}
	if c.current != nil && !c.current.lost() {
		return c.current, nil
	}
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.current = s
	return s, nil
}

// connectPatience is the time limit for finding a supervisor while one ends and another starts.
const connectPatience = 15 * time.Second

func (c *Client) connect(ctx context.Context) (*session, error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make supervisor directory: %w", err)
	}
	if err := os.Chmod(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("protect supervisor directory: %w", err)
	}
	dir, err := os.Open(c.dir)
	if err != nil {
		return nil, fmt.Errorf("open supervisor directory: %w", err)
	}
	defer dir.Close()
	key, err := ensureSecret(dir)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(connectPatience); ; {
		s, err := c.meet(ctx, dir, key)
		if err == nil || errors.Is(err, errRefused) || ctx.Err() != nil || time.Now().After(deadline) {
			return s, err
		}
		if living(dir) { // it is starting, ending, or being upgraded
			backoff.Sleep(ctx, 5*time.Millisecond) // the next attempt fails if ctx ended
			continue
		}
		if err := c.spawn(); err != nil && !living(dir) { // else another client was first
			return nil, err
		}
	}
}

// living reports whether a supervisor holds the lock.
func living(dir *os.File) bool {
	fd, err := unix.Openat(int(dir.Fd()), lockName, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd) // also releases the lock, if we got it
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// meet connects to a running supervisor and upgrades it to our build if necessary.
func (c *Client) meet(ctx context.Context, dir *os.File, key secret) (*session, error) {
	s, hello, err := open(ctx, dir, key)
	if err != nil {
		return nil, err
	}
	if hello.Program == program() {
		return s, nil
	}
	c.log.Info("upgrade the supervisor in place", "from", hello.Program, "to", program())
	if err := c.upgrade(ctx, s); err != nil {
		c.log.Error("the supervisor still runs another build: running tasks, their logs and signals are served, "+
			"new tasks may be refused; the upgrade is retried before each start; "+
			"if that does not help, drain the node and restart the agent", "err", err)
		s.outdated, s.unguarded = true, !hello.Guarded
		return s, nil
	}
	s.close()
	return nil, ErrLost // connect again
}

// errNotLiving means that no supervisor listens.
var errNotLiving = errors.New("no supervisor listens")

// open connects to a running supervisor and presents the secret.
func open(ctx context.Context, dir *os.File, key secret) (*session, *response, error) {
	conn, err := dial(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNotLiving, err)
	}
	s := newSession(conn)
	hello, err := s.call(ctx, &request{Op: opHello, Secret: key.text})
	if err != nil {
		s.close()
		return nil, nil, err
	}
	s.apart = hello.Apart
	return s, hello, nil
}

// upgradePatience is how long a refused upgrade is retried, at intervals of upgradePause. A
// supervisor refuses upgrades during a start.
const (
	upgradePatience = 5 * time.Second
	upgradePause    = 20 * time.Millisecond
)

// upgrade returns nil when the supervisor runs the new program.
func (c *Client) upgrade(ctx context.Context, s *session) error {
	deadline := time.Now().Add(c.patient)
	for first := true; ; first = false {
		err := c.tryUpgrade(ctx, s)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		if first {
			c.log.Info("the supervisor cannot be upgraded yet", "err", err)
		}
		backoff.Sleep(ctx, upgradePause) // the next attempt fails if ctx ended
	}
}

func (c *Client) tryUpgrade(ctx context.Context, s *session) error {
	// The path belongs to this process: the supervisor cannot use its descriptors.
	path := strings.Replace(companion.Path(), "/proc/self/", "/proc/"+strconv.Itoa(os.Getpid())+"/", 1)
	_, err := s.call(ctx, &request{Op: opUpgrade, Path: path, Program: program()})
	if errors.Is(err, ErrLost) {
		return nil
	}
	return fmt.Errorf("upgrade the supervisor: %w", err)
}

// program identifies the build of the companion.
func program() string {
	var st unix.Stat_t
	if err := unix.Stat(companion.Path(), &st); err != nil {
		return "unknown"
	}
	if companion.Embedded() {
		return "embedded-" + companion.Sum()
	}
	return fmt.Sprintf("file-%x-%x-%d", st.Dev, st.Ino, st.Mtim.Nano())
}

// readyPatience is the time limit for the start of a supervisor.
const readyPatience = 10 * time.Second

// spawn starts a supervisor in its own session, with an empty environment, and returns when it
// listens.
func (c *Client) spawn() error {
	out, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open supervisor log: %w", err)
	}
	defer out.Close()
	if st, err := out.Stat(); err == nil && st.Size() > 1<<20 {
		out.Truncate(0) //nolint:errcheck // a long log is harmless
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	defer r.Close()
	cmd := &exec.Cmd{Path: companion.Path(), Args: []string{Entry, c.dir, program()}, Env: []string{}, Dir: "/",
		Stderr: out, ExtraFiles: []*os.File{w}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	go cmd.Wait()                                    //nolint:errcheck // it usually outlives the agent; its log has the reason of its end
	r.SetReadDeadline(time.Now().Add(readyPatience)) //nolint:errcheck // a pipe supports deadlines
	if n, err := r.Read(make([]byte, 2)); n == 0 {
		return fmt.Errorf("the supervisor did not start, see %s: %w", out.Name(), err)
	}
	return nil
}
