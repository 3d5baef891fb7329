package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/companion"
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
	start, user, err := sessionStart(t, s, o)
	if err != nil {
		return nil, err
	}
	if start.Enter != nil {
		defer start.Enter.Close()
		if _, err := ts.running(ctx, id); err != nil {
			return nil, err // the opened process may be another one with a reused PID
		}
	}
	c, err := connect(o, user)
	if err != nil {
		return nil, err
	}
	defer c.close()
	start.Stdio, start.Terminal = c.child, o.Tty
	life, end := context.WithCancel(ctx)
	defer end()
	go func() {
		defer end()
		ts.Supervisor.Wait(life, id) //nolint:errcheck // any end of the wait ends the session
	}()
	exit, err := runSession(life, start, c, o)
	if err == nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the session was ended: %w", context.Cause(ctx))
	}
	return exit, err
}

// running returns a running task.
func (ts *Tasks) running(ctx context.Context, id string) (*proc.Task, error) {
	t, err := ts.Supervisor.Task(ctx, id)
	if err != nil {
		return nil, notFound(err)
	}
	if t.Exit != nil || t.PID == 0 {
		return nil, drivers.ErrTaskNotFound
	}
	return t, nil
}

// sessionStart returns how to start a session of a task, and the user who may open its descriptors
// again, nil for this process's user. The caller closes Enter.
func sessionStart(t *proc.Task, s state, o *drivers.ExecOptions) (*launch.Start, *sandbox.User, error) {
	if len(t.Declared) == 0 {
		return nil, nil, errors.New("the task was started by an agent that did not record its policy: restart the task")
	}
	p, err := sandbox.Declared(t.Declared)
	if err != nil {
		return nil, nil, err
	}
	policy := p.Sidecar(o.Command, s.Environment.Apply(o.Env))
	policy.MissingExit = missingExit
	raw, err := sandbox.Encode(policy)
	if err != nil {
		return nil, nil, err
	}
	start := &launch.Start{Program: companion.Path(), Entry: sandbox.Entry, Policy: raw, Join: s.Join, Users: p.OwnUsers, Bound: true}
	if t.Group != (proc.Group{}) {
		h, err := cgroup.Detect()
		if err != nil {
			return nil, nil, err
		}
		group, err := h.Open(t.Group.Parent, t.Group.Name)
		if err != nil {
			return nil, nil, err
		}
		start.GroupDir, start.Join = group.Dir(), append(group.JoinFiles(), s.Join...)
	}
	if p.PrivatePID || p.PrivateIPC || p.Mounts != nil || p.NetNS != "" {
		pidfd, err := unix.PidfdOpen(t.PID, 0)
		if err == unix.ESRCH {
			return nil, nil, drivers.ErrTaskNotFound // it has just ended
		}
		if err != nil {
			return nil, nil, fmt.Errorf("open process %d of the task: %w", t.PID, err)
		}
		start.Enter = os.NewFile(uintptr(pidfd), "task")
	}
	return start, p.User, nil
}

// runSession starts the program and waits for its end. It kills the program when life ends.
func runSession(life context.Context, start *launch.Start, c *connection, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	var p *launch.Process
	var err error
	onThread(func() { p, err = start.Fork() })
	if err != nil {
		return nil, err
	}
	defer p.Close()
	defer p.Pidfd.Close()
	c.closeChild()
	reason, err := p.Ready()
	if err == nil && reason != "" {
		err = &proc.StartError{Reason: reason}
	}
	var leader *leader
	if err == nil {
		leader, err = leaderOf(p)
	}
	if err != nil {
		unix.Kill(p.PID, unix.SIGKILL) //nolint:errcheck // not reaped, and about to end
		_, werr := p.Wait()
		return nil, errors.Join(err, werr)
	}
	defer leader.close()
	c.carry(o)
	stop := context.AfterFunc(life, leader.kill)
	ws, err := p.Wait()
	stop()
	if err != nil {
		return nil, err
	}
	c.finish()
	if ws.Signaled() {
		return &drivers.ExitResult{ExitCode: 128 + int(ws.Signal()), Signal: int(ws.Signal())}, nil
	}
	return &drivers.ExitResult{ExitCode: ws.ExitStatus()}, nil
}

// forks is the thread that forks programs that must end with this process. The kernel kills them
// when the thread that forked them ends, and other threads may end earlier.
var forks = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

// onThread runs f on that thread.
func onThread(f func()) {
	done := make(chan struct{})
	forks() <- func() {
		defer close(done)
		f()
	}
	<-done
}
