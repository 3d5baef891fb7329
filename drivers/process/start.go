package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Program is what a driver starts for a task.
type Program struct {
	Policy      *sandbox.Policy
	Declared    json.RawMessage // stored by the supervisor, as sandbox.Declare encodes it
	Limits      *cgroup.Limits  // of the task's own control group; nil: no such group
	Join        []string        // files of further groups to join
	Environment Environment     // of later sessions; the policy has that of the task
	// Kept is data of the driver that a later agent needs, without secrets: see Tasks.Kept.
	Kept map[string]string
}

// Observer observes the tasks of a driver. Only Exited may block.
type Observer interface {
	// Starting is called before the first instruction of a program. After a failed start, Removed is called.
	Starting(cfg *drivers.TaskConfig, p *Program)
	// Running is called for a program that was started or recovered.
	Running(t *proc.Task)
	// Exited is called before WaitTask returns the exit of a task.
	Exited(ctx context.Context, id string)
	// Removed is called for a task that the driver no longer has.
	Removed(id string)
}

// unobserved is the Observer of drivers that need none.
type unobserved struct{}

func (unobserved) Starting(*drivers.TaskConfig, *Program) {}
func (unobserved) Running(*proc.Task)                     {}
func (unobserved) Exited(context.Context, string)         {}
func (unobserved) Removed(string)                         {}

// StartTask implements drivers.Driver.
func (ts *Tasks) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	defer ts.cfg.Supervisor.Turn()()
	p, err := ts.cfg.Prepare(cfg)
	if err != nil {
		return nil, err
	}
	spec, err := p.spec(cfg)
	if err != nil {
		return nil, err
	}
	s := state{Name: cfg.Name, Backend: ts.cfg.Kind.Name, MHzPerCore: cfg.Limits.MHzPerCore, Environment: p.Environment,
		Join: p.Join, Kept: p.Kept,
		group: GroupName(cfg)}
	if spec.Group != nil {
		s.measured = spec.Group.Group
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode handle of task %s: %w", cfg.ID, err)
	}
	ts.cfg.Observer.Starting(cfg, p)
	t, err := ts.run(ctx, spec)
	if err != nil {
		ts.cfg.Observer.Removed(cfg.ID)
		return nil, err
	}
	ts.remember(cfg.ID, s)
	ts.cfg.Observer.Running(t)
	return &drivers.TaskHandle{Driver: ts.cfg.Name, Version: handleVersion, TaskID: cfg.ID, State: raw}, nil
}

// run has the supervisor start a program. An error is recoverable, unless the program itself was refused.
func (ts *Tasks) run(ctx context.Context, spec *proc.Spec) (t *proc.Task, err error) {
	err = ts.groups.start(ctx, spec.Group, func() error {
		t, err = ts.cfg.Supervisor.Start(ctx, spec)
		return err
	})
	if _, refused := errors.AsType[*proc.StartError](err); err != nil && !refused {
		err = &drivers.RecoverableError{Err: err}
	}
	return t, err
}

// spec returns the supervisor's spec of a program.
func (p *Program) spec(cfg *drivers.TaskConfig) (*proc.Spec, error) {
	raw, err := sandbox.Encode(p.Policy)
	if err != nil {
		return nil, err
	}
	logs, err := Logs(cfg)
	if err != nil {
		return nil, err
	}
	spec := &proc.Spec{ID: cfg.ID, Entry: sandbox.Entry, Policy: raw, Logs: logs, Init: p.Policy.PrivatePID, Users: p.Policy.OwnUsers,
		Join: p.Join, Declared: p.Declared}
	if u := p.Policy.User; u != nil {
		spec.Owner = &proc.Owner{UID: int(u.UID), GID: int(u.GID)}
	}
	if p.Limits != nil {
		spec.Group = &proc.GroupSpec{Group: GroupName(cfg), Limits: *p.Limits}
	}
	return spec, nil
}
