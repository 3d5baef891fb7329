package sandbox

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/launch"
)

// Command is a program that this process runs under a policy and waits for: a session in a task, or
// a program that works for a task. It ends with this process.
type Command struct {
	Policy     *Policy
	Executable *os.File // for a policy with ByDescriptor
	Stdio      [3]*os.File
	Terminal   bool     // descriptor 0 becomes the controlling terminal
	GroupDir   string   // as in launch.Start
	Join       []string // as in launch.Start
	Enter      *os.File // pidfd of a process whose namespaces to join; nil joins none
	EnterUsers bool     // its user namespace, too

	// KillRest kills the descendants that outlive the program: the members of its session, and of
	// Group. It is always so in a PID namespace of its own, which ends with the program.
	KillRest bool
	Group    *cgroup.Group // of this program only; nil if there is none
}

// groupPatience is the time limit for the end of killed processes of Group.
const groupPatience = 5 * time.Second

// Run runs the program until it ends, and returns its wait status. The end of ctx kills it and its
// descendants. Run calls started, if not nil, when the program has been executed. An error is about
// the start: a *launch.RefusedError if the stage did not execute the program.
func (c *Command) Run(ctx context.Context, started func()) (unix.WaitStatus, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	p, err := c.launch(ctx)
	if err != nil {
		return 0, errors.Join(err, c.killGroup())
	}
	defer p.Close()
	defer p.Pidfd.Close()
	l, err := leaderOf(p)
	if err != nil {
		p.Kill()
		_, werr := p.Wait()
		return 0, errors.Join(err, werr, c.killGroup())
	}
	defer l.close()
	stop := onEnd(ctx, func() { c.kill(p, l) })
	defer stop()
	if started != nil {
		started()
	}
	if err := p.AwaitEnd(); err != nil {
		return 0, err
	}
	stop()
	return c.reap(p)
}

// launch starts the program. The end of ctx kills the stage, or the program with its init. Its descendants
// then end as after its own end.
func (c *Command) launch(ctx context.Context) (*launch.Process, error) {
	policy := *c.Policy
	policy.Bound = true
	raw, err := Encode(&policy)
	if err != nil {
		return nil, err
	}
	s := &launch.Start{Program: companion.Path(), Entry: Entry, Policy: raw, Executable: c.Executable, Stdio: c.Stdio,
		Terminal: c.Terminal, GroupDir: c.GroupDir, Join: c.Join, Init: policy.PrivatePID, Enter: c.Enter,
		Users: policy.OwnUsers || c.EnterUsers, Bound: true}
	stop := func() {}
	defer func() { stop() }()
	p, err := s.Launch(func(p *launch.Process) error {
		if c.Enter == nil { // kill finds the session of a program that entered a task
			stop = onEnd(ctx, p.Kill)
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return p, err
}

// onEnd calls f when ctx ends. Stop prevents that, or waits until f has returned.
func onEnd(ctx context.Context, f func()) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		f()
	})
	return sync.OnceFunc(func() {
		if !cancel() {
			<-done
		}
	})
}

// kill kills the program and its descendants.
func (c *Command) kill(p *launch.Process, l *leader) {
	if c.Policy.PrivatePID {
		p.Kill()
		return
	}
	l.kill()
	if c.Group != nil {
		c.Group.Kill() //nolint:errcheck // reap tries again
	}
}

// reap kills what must end with the program, and reaps it. Until then, the number of its session is
// not reused.
func (c *Command) reap(p *launch.Process) (unix.WaitStatus, error) {
	if c.KillRest && !c.Policy.PrivatePID {
		killOthers(p.PID)
	}
	ws, err := p.Reap()
	return ws, errors.Join(err, c.killGroup())
}

// killGroup kills the remaining processes in Group.
func (c *Command) killGroup() error {
	if c.Group == nil {
		return nil
	}
	return c.Group.KillAll(groupPatience)
}
