package process

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// missingExit is the exit code of a session whose program cannot be executed. The reason is on its
// standard error.
const missingExit = 127

// ExecTask implements drivers.Execer. The program runs under the policy of the task's start, in the
// namespaces and control groups of the running task. It has its own session, which ends with the
// task, with ctx and with this process.
func (ts *Tasks) ExecTask(ctx context.Context, id string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	s, err := ts.state(id)
	if err != nil {
		return nil, err
	}
	t, err := ts.running(ctx, id)
	if err != nil {
		return nil, err
	}
	session, user, err := sessionOf(t, s, o)
	if err != nil {
		return nil, err
	}
	if session.Enter != nil {
		defer session.Enter.Close()
		if _, err := ts.running(ctx, id); err != nil {
			return nil, err // the opened process may be another one with a reused PID
		}
	}
	c, err := connect(o, user)
	if err != nil {
		return nil, err
	}
	defer c.close()
	session.Stdio, session.Terminal = c.child, o.Tty
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		ts.cfg.Supervisor.Wait(life, id) //nolint:errcheck // any end of the wait ends the session
		end(drivers.ErrTaskNotFound)
	}()
	exit, err := runSession(life, session, c, o)
	if err == nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the session was ended: %w", context.Cause(ctx))
	}
	return exit, err
}

// running returns a running task.
func (ts *Tasks) running(ctx context.Context, id string) (*proc.Task, error) {
	t, err := ts.cfg.Supervisor.Task(ctx, id)
	if err != nil {
		return nil, notFound(err)
	}
	if t.Exit != nil || t.PID == 0 {
		return nil, drivers.ErrTaskNotFound
	}
	return t, nil
}

// sessionOf returns a session of a task, and the user who may open its descriptors again, nil for
// this process's user. The caller closes Enter.
func sessionOf(t *proc.Task, s state, o *drivers.ExecOptions) (*sandbox.Command, *sandbox.User, error) {
	if len(t.Declared) == 0 {
		return nil, nil, errors.New("the task was started by an agent that did not record its policy: restart the task")
	}
	p, err := sandbox.Declared(t.Declared)
	if err != nil {
		return nil, nil, err
	}
	policy := p.Session(o.Command, s.Environment.Apply(o.Env))
	policy.MissingExit = missingExit
	session := &sandbox.Command{Policy: policy, Join: s.Join, EnterUsers: p.OwnUsers}
	if t.Group != (proc.Group{}) {
		h, err := cgroup.Detect()
		if err != nil {
			return nil, nil, err
		}
		group, err := h.Open(t.Group.Parent, t.Group.Name)
		if err != nil {
			return nil, nil, err
		}
		session.GroupDir, session.Join = group.Dir(), append(group.JoinFiles(), s.Join...)
	}
	if p.PrivatePID || p.PrivateIPC || p.Mounts != nil || p.NetNS != "" || p.Hostname != "" {
		pidfd, err := unix.PidfdOpen(t.PID, 0)
		if err == unix.ESRCH {
			return nil, nil, drivers.ErrTaskNotFound // it has just ended
		}
		if err != nil {
			return nil, nil, fmt.Errorf("open process %d of the task: %w", t.PID, err)
		}
		session.Enter = os.NewFile(uintptr(pidfd), "task")
	}
	return session, p.User, nil
}

// runSession runs the program until it ends. It kills the program when life ends.
func runSession(life context.Context, s *sandbox.Command, c *connection, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	ws, err := s.Run(life, func() {
		c.closeChild()
		c.copyStreams(o)
	})
	if err != nil {
		return nil, startError(err)
	}
	c.finish()
	return exitOf(ws), nil
}

// startError returns the supervisor's error for a program that the stage refused to execute.
func startError(err error) error {
	if refused, ok := errors.AsType[*launch.RefusedError](err); ok {
		return &proc.StartError{Reason: refused.Reason}
	}
	return err
}

// exitOf converts the wait status of a program.
func exitOf(ws unix.WaitStatus) *drivers.ExitResult {
	if ws.Signaled() {
		return &drivers.ExitResult{ExitCode: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	}
	return &drivers.ExitResult{ExitCode: ws.ExitStatus()}
}
