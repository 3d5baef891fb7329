package supervise

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/open-nomad/open-nomad/internal/supervise/server"
	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

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

// connectTimeout is the time limit for finding a supervisor while one ends and another starts.
const connectTimeout = 15 * time.Second

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
	key, err := wire.EnsureSecret(dir)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(connectTimeout); ; {
		s, err := c.meet(ctx, dir, key)
		if err == nil || errors.Is(err, wire.ErrRefused) || ctx.Err() != nil || time.Now().After(deadline) {
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
	fd, err := unix.Openat(int(dir.Fd()), wire.LockName, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd) // also releases the lock, if we got it
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// meet connects to a running supervisor and upgrades it to our build if necessary.
func (c *Client) meet(ctx context.Context, dir *os.File, key wire.Secret) (*session, error) {
	s, hello, err := open(ctx, dir, key)
	if err != nil {
		return nil, err
	}
	c.exchangeSockets(ctx, s, hello.Sockets)
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
func open(ctx context.Context, dir *os.File, key wire.Secret) (*session, *wire.Response, error) {
	conn, err := wire.Dial(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNotLiving, err)
	}
	s := newSession(conn)
	hello, err := s.call(ctx, key.Hello())
	if err != nil {
		s.close()
		return nil, nil, err
	}
	s.separate = hello.Separate
	return s, hello, nil
}

// upgradeTimeout is how long a refused upgrade is retried, at intervals of upgradePause. A
// supervisor refuses upgrades during a start.
const (
	upgradeTimeout = 5 * time.Second
	upgradePause   = 20 * time.Millisecond
)

// upgrade returns nil when the supervisor runs the new program.
func (c *Client) upgrade(ctx context.Context, s *session) error {
	deadline := time.Now().Add(c.timeout)
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
	_, err := s.call(ctx, &wire.Request{Op: wire.OpUpgrade, Path: path, Program: program()})
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

// readyTimeout is the time limit for the start of a supervisor.
const readyTimeout = 10 * time.Second

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
	cmd := &exec.Cmd{Path: companion.Path(), Args: []string{server.Entry, c.dir, program()}, Env: []string{}, Dir: "/",
		Stderr: out, ExtraFiles: []*os.File{w}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	go cmd.Wait()                                   //nolint:errcheck // it usually outlives the agent; its log has the reason of its end
	r.SetReadDeadline(time.Now().Add(readyTimeout)) //nolint:errcheck // a pipe supports deadlines
	if n, err := r.Read(make([]byte, 2)); n == 0 {
		return fmt.Errorf("the supervisor did not start, see %s: %w", out.Name(), err)
	}
	return nil
}
