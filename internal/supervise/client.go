package supervise

import (
	"context"
	"errors"
	"fmt"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
)

// Client is the agent's side. It finds the supervisor of its directory, or starts
// one when it is first needed, and finds or starts it again whenever it is lost.
type Client struct {
	log     *slog.Logger
	dir     string
	uid     int           // the agent's
	patient time.Duration // how long an upgrade is tried again that the supervisor refused
	gate    chan struct{} // holds one token: who has it may change current
	current *session
	closed  bool
}

// NewClient returns a client for the supervisor that lives in dir, such as
// <data_dir>/client/supervise. It touches nothing yet.
func NewClient(dir string, log *slog.Logger) *Client {
	c := &Client{log: log, dir: dir, uid: os.Geteuid(), patient: upgradePatience, gate: make(chan struct{}, 1)}
	c.gate <- struct{}{}
	return c
}

// Dir is the supervisor's directory, which no task may see.
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

// outcome returns a task whose start was not answered before the supervisor died: the next
// supervisor knows whether it runs. Only ErrUnknownTask means that it does not.
func (c *Client) outcome(ctx context.Context, id string) (*proc.Task, error) {
	for {
		t, err := c.Task(ctx, id)
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, proc.ErrUnknownTask):
			return nil, fmt.Errorf("start task %s: %w", id, ErrLost)
		case ctx.Err() != nil: // the question may have been answered all the same
			return nil, fmt.Errorf("start task %s: it is not known whether it runs: %w: the last answer was: %w", id, ctx.Err(), err)
		case errors.Is(err, errClosed):
			return nil, fmt.Errorf("start task %s: it is not known whether it runs: %w", id, err)
		}
		c.log.Warn("the supervisor does not answer whether a task was started: ask again", "task", id, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(outcomePause):
		}
	}
}

// outcomePause is the pause between questions for the outcome of a start.
const outcomePause = time.Second

// ready returns a session that takes starts. It upgrades a supervisor of another build that could
// not be upgraded when it was met. It refuses one that asks for no secret where tasks have the
// agent's uid: a task could use it to start programs without a sandbox.
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

// Tasks lists what the supervisor knows.
func (c *Client) Tasks(ctx context.Context) ([]proc.Task, error) {
	return c.list(ctx, &request{Op: opList})
}

// Faulty lists the tasks with logs that cannot be written. A supervisor of an earlier version
// lists the others, too.
func (c *Client) Faulty(ctx context.Context) ([]proc.Task, error) {
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

// Wait blocks until the task has ended and its logs are complete. It outlives
// supervisors: only ctx and an unknown task end it early.
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

// Forget drops an exited task. An unknown one is no error.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.retry(ctx, &request{Op: opForget, ID: id})
	if errors.Is(err, proc.ErrUnknownTask) {
		return nil
	}
	return wrap("forget", id, err)
}

// Upgrade replaces the supervisor's program by this agent's, in place: tasks go on.
// It happens by itself when a client meets a supervisor of another build.
func (c *Client) Upgrade(ctx context.Context) error {
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	return c.upgrade(ctx, s)
}

// Shutdown kills every task and ends the supervisor, and waits for that. It starts none if
// none lives.
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

// Leave is Close, after which no supervisor without a task stays, with what it has made ahead: one
// to which nobody else is connected ends, and is waited for.
func (c *Client) Leave(ctx context.Context) error {
	<-c.gate
	s := c.current
	c.gate <- struct{}{}
	defer c.Close() //nolint:errcheck // it never fails
	if s == nil || s.lost() {
		return nil
	}
	if _, err := s.call(ctx, &request{Op: opRest}); err != nil && !errors.Is(err, ErrLost) {
		return ctx.Err() // tasks go on, or it is of an earlier build and ends a little later
	}
	return s.ended(ctx)
}

// Close lets go of the supervisor; tasks go on.
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

// call asks once. ErrLost means that the answer got lost, not the request.
func (c *Client) call(ctx context.Context, req *request) (*response, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, req)
}

// retry asks again, of the next supervisor, for what can be asked twice.
func (c *Client) retry(ctx context.Context, req *request) (*response, error) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		resp, err := c.call(ctx, req)
		if err == nil || !errors.Is(err, ErrLost) {
			return resp, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// errClosed means that the agent does not use the supervisor any more.
var errClosed = errors.New("supervisor client is closed")

// session returns the living connection, making one if needed.
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

// connectPatience bounds finding a supervisor while one ends and another begins.
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
		if living(dir) { // it is beginning, ending, or on its way into another program
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		if err := c.spawn(); err != nil && !living(dir) { // else another client was quicker
			return nil, err
		}
	}
}

// living says whether a supervisor holds the lock.
func living(dir *os.File) bool {
	fd, err := unix.Openat(int(dir.Fd()), lockName, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd) // and with it the lock, if we got it
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// meet connects to a living supervisor and makes sure it is of our build.
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
		c.log.Error("the supervisor keeps running another build: running tasks, their logs and signals are served, "+
			"new tasks may be refused; the upgrade is tried again before each start; "+
			"if that does not help, drain the node and restart the agent", "err", err)
		s.outdated, s.unguarded = true, !hello.Guarded
		return s, nil
	}
	s.close()
	return nil, ErrLost // meet it again
}

// errNotLiving means that no supervisor listens.
var errNotLiving = errors.New("no supervisor listens")

// open connects to a living supervisor and presents the secret.
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

// upgradePatience bounds how often an upgrade is tried again that the supervisor refused, as it
// does while a start is under way; upgradePause lies between.
const (
	upgradePatience = 5 * time.Second
	upgradePause    = 20 * time.Millisecond
)

// upgrade returns nil when the supervisor has become another program.
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
		select {
		case <-ctx.Done():
		case <-time.After(upgradePause):
		}
	}
}

func (c *Client) tryUpgrade(ctx context.Context, s *session) error {
	// The path is one in this process: its own descriptors mean nothing over there.
	path := strings.Replace(companion.Path(), "/proc/self/", "/proc/"+strconv.Itoa(os.Getpid())+"/", 1)
	_, err := s.call(ctx, &request{Op: opUpgrade, Path: path, Program: program()})
	if errors.Is(err, ErrLost) {
		return nil
	}
	return fmt.Errorf("upgrade the supervisor: %w", err)
}

// program tells one build of the companion from another.
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

// readyPatience bounds the start of a supervisor.
const readyPatience = 10 * time.Second

// spawn starts a supervisor in a session of its own, with an empty environment,
// and returns when it listens.
func (c *Client) spawn() error {
	out, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open supervisor log: %w", err)
	}
	defer out.Close()
	if st, err := out.Stat(); err == nil && st.Size() > 1<<20 {
		out.Truncate(0) //nolint:errcheck // a long log harms nobody
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
	go cmd.Wait()                                    //nolint:errcheck // it outlives us as a rule; its log says why it ended
	r.SetReadDeadline(time.Now().Add(readyPatience)) //nolint:errcheck // a pipe takes deadlines
	if n, err := r.Read(make([]byte, 2)); n == 0 {
		return fmt.Errorf("the supervisor did not start, see %s: %w", out.Name(), err)
	}
	return nil
}
