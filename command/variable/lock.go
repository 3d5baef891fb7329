package variable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/backoff"
)

// Timeouts for the command after SIGTERM, and for the release of the lock.
const (
	killAfter     = 5 * time.Second
	releaseWithin = 5 * time.Second
)

// locker runs a command while it holds the lock of a variable.
type locker struct {
	env     *term.Env
	vars    *api.Variables
	v       *api.Variable
	show    func(*api.Variable) error
	backoff time.Duration
	retries int64
	early   bool
	shell   bool
	verbose bool
}

func lockCommand() term.Command {
	return term.Command{
		Name: "var lock", Args: "<path or @file or -> [@file or -] <command>...", MinArgs: 2, MaxArgs: -1,
		Short: "Run a command while holding the lock of a variable",
		Long: "Waits for the lock of the variable, runs the command and releases the lock. The variable is created if it does not exist. " +
			"While the command runs, the lock is renewed. If the lock is lost, the command gets SIGTERM. The exit code is that of the command.",
		Setup: func(f *term.Flags) term.Run {
			l := &locker{}
			ttl := f.String("ttl", "", "The `duration` after which a lock expires without renewal. Default 15s.")
			delay := f.String("delay", "", "The `duration` for which an expired lock cannot be acquired. Default 15s.")
			f.DurationVar(&l.backoff, "backoff", time.Second,
				"The `duration` between two attempts to acquire the lock, or to renew it after a failure.")
			f.Int64Var(&l.retries, "max-retry", 5, "The maximum `number` of retries after consecutive failures.")
			f.BoolVar(&l.early, "early-return", false, "Exit at once if the lock is held, instead of waiting.")
			f.BoolVar(&l.shell, "shell", true, "Run the command in a shell.")
			f.BoolVar(&l.verbose, "verbose", false, "Print more.")
			in := f.String("in", "", "The `format` of the specification: json or hcl. Default: by the file name, else json.")
			var how output
			how.declare(f, "none", "json")
			return func(ctx context.Context, e *term.Env) error {
				v, child, err := specification(e, e.Args, *in)
				if err == nil && len(child) == 0 {
					err = errors.New("A command is required")
				}
				if err != nil {
					return err
				}
				show := func(*api.Variable) error { return nil }
				if how.format != "" || how.template != "" {
					if show, err = how.printer(e, "none"); err != nil {
						return err
					}
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				if v.Lock == nil {
					v.Lock = &api.VariableLock{}
				}
				v.Lock.TTL, v.Lock.LockDelay = cmp.Or(*ttl, v.Lock.TTL), cmp.Or(*delay, v.Lock.LockDelay)
				l.env, l.vars, l.v, l.show = e, c.Variables(), v, show
				return l.run(ctx, child)
			}
		},
	}
}

// run holds the lock while the command runs.
func (l *locker) run(ctx context.Context, child []string) error {
	lock, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	locked := &api.Variable{Namespace: lock.Namespace, Path: lock.Path, Lock: lock.Lock}
	defer l.release(locked)
	if err := l.show(lock); err != nil {
		return err
	}
	ttl, err := time.ParseDuration(lock.Lock.TTL)
	if err != nil {
		return fmt.Errorf("Error acquiring the lock: its TTL is %q", lock.Lock.TTL)
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		if err := l.keep(running, locked, ttl); err != nil {
			stop(err)
		}
	}()
	err = l.child(running, child)
	lost := context.Cause(running)
	stop(nil)
	<-renewing
	if errors.Is(lost, api.ErrLockConflict) {
		return fmt.Errorf("The lock of %q was lost while the command ran: %w", locked.Path, lost)
	}
	return err
}

// acquire waits until the lock is held.
func (l *locker) acquire(ctx context.Context) (*api.Variable, error) {
	for failures := int64(0); ; {
		lock, _, err := l.vars.AcquireLock(l.v, (&api.WriteOptions{}).WithContext(ctx))
		conflict := errors.Is(err, api.ErrLockConflict)
		switch {
		case err == nil && lock.Lock != nil:
			l.logf("holding %q", lock.Path)
			return lock, nil
		case conflict && l.early:
			return nil, fmt.Errorf("Error acquiring the lock: %q is already locked: %w", l.v.Path, err)
		case conflict:
			failures = 0
			l.logf("%q is already locked", l.v.Path)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case api.StatusCode(err) >= 400 && api.StatusCode(err) < 500:
			return nil, fmt.Errorf("Error acquiring the lock: %w", err)
		default:
			if failures++; failures > l.retries {
				return nil, fmt.Errorf("Error acquiring the lock: %w", err)
			}
		}
		if err := backoff.Sleep(ctx, l.backoff); err != nil {
			return nil, err
		}
	}
}

// keep renews the lock three times within each TTL, until ctx ends. It returns an error
// when the lock is lost: a server reported it, or all renewals within the TTL failed.
func (l *locker) keep(ctx context.Context, locked *api.Variable, ttl time.Duration) error {
	renewed := time.Now()
	wait := ttl / 3
	for backoff.Sleep(ctx, wait) == nil {
		asked := time.Now()
		within, cancel := context.WithTimeout(ctx, ttl/3)
		_, _, err := l.vars.RenewLock(locked, (&api.WriteOptions{}).WithContext(within))
		cancel()
		switch {
		case err == nil:
			renewed, wait = asked, ttl/3
		case errors.Is(err, api.ErrLockConflict), api.StatusCode(err) == 404:
			return api.ErrLockConflict
		case ctx.Err() != nil:
		case time.Since(renewed) > ttl:
			return fmt.Errorf("%w: it could not be renewed: %w", api.ErrLockConflict, err)
		default:
			l.logf("renew the lock: %v", err)
			wait = min(l.backoff, ttl/6)
		}
	}
	return nil
}

// child runs the command, and sends it SIGTERM when ctx ends.
func (l *locker) child(ctx context.Context, args []string) error {
	if l.shell {
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		args = []string{shell, "-c", strings.Join(args, " ")}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = l.env.In, l.env.ChildOut(), l.env.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return term.Exit(exit.ExitCode())
	case errors.As(err, &exit):
		status, _ := exit.Sys().(syscall.WaitStatus)
		return term.Exit(128 + int(status.Signal()))
	}
	return fmt.Errorf("Error running the command: %w", err)
}

// release releases the lock, even after ctx ended.
func (l *locker) release(locked *api.Variable) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseWithin)
	defer cancel()
	if _, _, err := l.vars.ReleaseLock(locked, (&api.WriteOptions{}).WithContext(ctx)); err != nil && !errors.Is(err, api.ErrLockConflict) {
		l.env.Warnf("Error releasing the lock: %v. It expires after its TTL and delay", err)
	}
}

func (l *locker) logf(format string, args ...any) {
	if l.verbose {
		l.env.Warnf(format, args...)
	}
}
