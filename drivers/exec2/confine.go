package exec2

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Confine implements drivers.Confiner. The sidecar has the task's user, namespaces, network, TCP
// restrictions, system calls, rlimits and control group, but none of its paths and volumes.
func (d *Driver) Confine(ctx context.Context, cfg *drivers.TaskConfig, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	r, err := d.prepare(cfg)
	if err != nil {
		return nil, err
	}
	set, t, acc, groups := r.set, r.task, r.account, r.groups
	p, err := d.sidecarPolicy(set, cfg, t, acc, s)
	if err != nil {
		return nil, err
	}
	c := process.Confinement{Policy: p}
	if groups == nil {
		l, err := limits(set.Plugin, t, cfg.Limits)
		if err != nil {
			return nil, err
		}
		c.Group = process.SidecarGroup(cfg, l.Processes)
	}
	return d.Tasks.Confine(ctx, c, s)
}

// sidecarPolicy returns the complete policy of a sidecar of the task.
func (d *Driver) sidecarPolicy(set settings, cfg *drivers.TaskConfig, t config.Task, acc hostuser.User, s *drivers.Sidecar) (*sandbox.Policy, error) {
	base, err := confinement(set.Plugin, cfg, t, acc)
	if err != nil {
		return nil, err
	}
	if base.Mounts != nil {
		hide, err := process.Existing(d.own)
		if err != nil {
			return nil, err
		}
		base.Mounts.Hide = slices.Concat(base.Mounts.Hide, hide)
	}
	p, err := process.SidecarPolicy(base, cfg, s)
	if err != nil {
		return nil, err
	}
	return p, filter(set, t, p)
}
