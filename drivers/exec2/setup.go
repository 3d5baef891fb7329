package exec2

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// setup is a task as this node runs it. Its policies, that of the task and those of sidecars, come from it.
type setup struct {
	cfg     *drivers.TaskConfig
	task    config.Task // the task's own config block
	set     settings
	account hostuser.User
	groups  error // why control groups are not available, or nil
}

// setup checks that this node can run the task, and makes the directories of the task ready.
func (d *Driver) setup(cfg *drivers.TaskConfig) (*setup, error) {
	s := &setup{cfg: cfg, set: d.Current(), groups: groupsUsable()}
	_, err := check(s.set.Plugin, s.groups)
	if err != nil {
		return nil, err
	}
	if s.task, err = config.DecodeTask(cfg.Config); err != nil {
		return nil, err
	}
	if err := s.checkKernel(); err != nil {
		return nil, err
	}
	if s.account, err = account(s.set.Plugin, cfg); err != nil {
		return nil, err
	}
	return s, prepareDirectories(cfg, s.account)
}

// checkKernel returns an error if the task needs more than the kernel has. Servers place tasks by the
// same rule, unless only the node knows the value.
func (s *setup) checkKernel() error {
	abi, err := landlock.ABI()
	switch {
	case err != nil:
		return err
	case abi < s.task.RequireABI:
		return fmt.Errorf("require_abi: the task requires Landlock ABI %d, this node's kernel has %d", s.task.RequireABI, abi)
	case s.task.Network != nil && abi < landlock.ABITCP:
		return fmt.Errorf("network: restricting TCP ports needs Landlock ABI %d, this node's kernel has %d", landlock.ABITCP, abi)
	}
	return nil
}

// program returns the program of a task.
func (d *Driver) program(cfg *drivers.TaskConfig) (*process.Program, error) {
	s, err := d.setup(cfg)
	if err != nil {
		return nil, err
	}
	p := &process.Program{Environment: s.environment()}
	if p.Policy, err = s.policy(d.agentDirs); err != nil {
		return nil, err
	}
	explain := d.watch.mode()
	p.Policy.LogDenials, p.Policy.LogCalls = explain == denials.Audit, explain != denials.Off
	l, err := s.limits()
	switch {
	case err != nil:
		return nil, err
	case s.groups == nil:
		p.Limits = &l
	case s.task.PIDsLimit > 0:
		return nil, errors.New("pids_limit: this node has no control groups to enforce it")
	}
	p.Declared, err = declare(p.Policy, p.Limits)
	return p, err
}

// Confine implements drivers.Confiner. The sidecar has the task's user, namespaces, network, TCP
// restrictions, system calls, rlimits and control group, but none of its paths and volumes.
func (d *Driver) Confine(ctx context.Context, cfg *drivers.TaskConfig, sidecar *drivers.Sidecar) (*drivers.ExitResult, error) {
	s, err := d.setup(cfg)
	if err != nil {
		return nil, err
	}
	var c process.Confinement
	if c.Policy, err = s.sidecarPolicy(d.agentDirs, sidecar); err != nil {
		return nil, err
	}
	if s.groups == nil {
		l, err := s.limits()
		if err != nil {
			return nil, err
		}
		c.Group = process.SidecarGroup(cfg, l.Processes)
	}
	return d.Tasks.Confine(ctx, c, sidecar)
}
