package taskrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// attempt is one start of the task: what its hooks have prepared, their background functions, and the
// driver's configuration of the task, which is made of that.
type attempt struct {
	cfg     *Config
	env     *taskenv.Builder
	current func() (*nomad.Allocation, *nomad.Task) // newest versions

	dir     *allocdir.Task // nil until a hook opens it; the next attempt takes it over
	owner   taskhook.Owner
	mounts  []drivers.Mount
	devices []drivers.Device
	dns     *drivers.DNS
	files   []drivers.HostFile
	log     drivers.LogConfig

	run      func(func(context.Context)) // starts a Background function
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	unlisten func() // stops the driver's events, may be nil
}

// newAttempt returns the attempt after r.try. Its background functions run until end is called or ctx ends.
func (r *Runner) newAttempt(ctx context.Context) *attempt {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{cfg: &r.cfg, env: r.env, current: r.current, owner: taskhook.Owner{UID: -1, GID: -1}, dir: r.dir(), cancel: cancel}
	a.run = func(background func(context.Context)) {
		if background != nil {
			a.wg.Go(func() { background(ctx) })
		}
	}
	return a
}

// take adds what a hook has prepared. It does not start the background function.
func (a *attempt) take(resp *taskhook.TaskPrestartResponse) {
	if resp.Dir != nil {
		a.closeDir()
		a.dir = resp.Dir
	}
	if resp.Owner != nil {
		a.owner = *resp.Owner
	}
	if resp.Log != nil {
		a.log = *resp.Log
	}
	if resp.DNS != nil {
		a.dns = resp.DNS
	}
	a.mounts = append(a.mounts, resp.Mounts...)
	a.devices = append(a.devices, resp.Devices...)
	a.files = append(a.files, resp.Files...)
}

// takeStored adds what a hook prepared in an earlier attempt, and does not prepare again.
func (a *attempt) takeStored(s *state.HookState) {
	a.mounts = append(a.mounts, s.Mounts...)
	a.devices = append(a.devices, s.Devices...)
	a.files = append(a.files, s.Files...)
}

// taskConfig builds the driver's configuration of the task.
func (a *attempt) taskConfig() (*drivers.TaskConfig, *taskenv.Env, error) {
	alloc, task := a.current()
	env := a.env.Build()
	config, err := env.Config(task.Config, a.cfg.Driver.TaskSpec())
	if err != nil {
		err = fmt.Errorf("task %q, driver %q: %w", task.Name, task.Driver, err)
		return nil, nil, &taskhook.Fault{Type: nomad.TaskFailedValidation, Err: err}
	}
	if err := a.checkPrivilege(task, env); err != nil {
		return nil, nil, err
	}
	if len(a.devices) > 0 && !a.cfg.Driver.Capabilities().Devices {
		err := fmt.Errorf("task %q needs devices, which driver %q does not support", task.Name, task.Driver)
		return nil, nil, &taskhook.Fault{Type: nomad.TaskFailedValidation, Err: err}
	}
	resources := allocated(alloc, task.Name)
	return &drivers.TaskConfig{
		ID:           taskID(alloc.ID, task.Name),
		JobID:        alloc.JobID,
		JobName:      alloc.Job.Name,
		Namespace:    alloc.Namespace,
		AllocID:      alloc.ID,
		TaskGroup:    alloc.TaskGroup,
		Name:         task.Name,
		NodeID:       a.cfg.Node.ID,
		NodeName:     a.cfg.Node.Name,
		User:         a.owner.User,
		Env:          env.Map(),
		Config:       config,
		Privileged:   task.Privileged,
		Limits:       limits(resources, a.cfg.MHzPerCore),
		Ports:        ports(alloc, resources),
		AllocDir:     a.cfg.Dir.Path(),
		TaskDir:      a.dir.Path(),
		SharedDir:    a.cfg.Dir.SharedPath(),
		LocalDir:     a.dir.LocalPath(),
		SecretsDir:   a.dir.SecretsPath(),
		LogDir:       a.cfg.Dir.LogPath(),
		Log:          a.log,
		Mounts:       a.mounts,
		Devices:      a.devices,
		Files:        a.files,
		Writable:     volumePaths(a.cfg.Node),
		DNS:          a.dns,
		NetNS:        a.cfg.NetNS,
		NetLabels:    a.cfg.NetLabels,
		Hostname:     a.cfg.Hostname,
		CgroupParent: cgroupParent(a.cfg.Node),
	}, env, nil
}

// checkPrivilege returns a fault if the driver must not run the task with, or without, privilege. It
// repeats what the servers have checked, with the interpolated config block and the configuration of
// the driver.
func (a *attempt) checkPrivilege(task *nomad.Task, env *taskenv.Env) error {
	block, err := env.Block(task.Config)
	if err == nil {
		err = drivers.PrivilegeOf(a.cfg.Driver).Check(task.Driver, task.Privileged, block)
	}
	if err == nil {
		err = a.checkPlugin(task)
	}
	if err != nil {
		return &taskhook.Fault{Type: nomad.TaskFailedValidation, Err: fmt.Errorf("task %q: %w", task.Name, err)}
	}
	return nil
}

// checkPlugin returns an error for a CSI plugin that needs privilege and does not have it. Drivers without privilege decide
// themselves what mounts a task may have.
func (a *attempt) checkPlugin(task *nomad.Task) error {
	p := drivers.PrivilegeOf(a.cfg.Driver)
	if task.Privileged || p.Legacy || !p.Offered && p.Needs == nil {
		return nil
	}
	if why := kinds.PluginNeeds(a.cfg.Driver.Capabilities(), task); why != "" {
		return fmt.Errorf("driver %q needs privileged = true in the task: %s", task.Driver, why)
	}
	return nil
}

// confinement lets a hook run programs of the client as the task would run in this attempt.
func (a *attempt) confinement() (*taskhook.Confinement, error) {
	if a.dir == nil {
		return nil, errors.New("the task has no directory")
	}
	cfg, _, err := a.taskConfig()
	if err != nil {
		return nil, err
	}
	name := a.cfg.Driver.Name()
	confiner, by := a.cfg.Hooks.Confiner, "driver "+name
	driver, ok := a.cfg.Driver.(drivers.Confiner)
	if ok {
		confiner = driver
	}
	if confiner == nil {
		return nil, fmt.Errorf("nothing can confine programs that work for a task of driver %s", name)
	}
	// Such a driver has no sandbox, or one that cannot be used for other programs than the task.
	if !ok || a.cfg.Driver.Capabilities().FSIsolation == drivers.FSIsolationNone {
		by = "the client, not by driver " + name
	}
	return &taskhook.Confinement{By: by, Memory: cfg.Limits.SidecarLimit(),
		Run: func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
			return confiner.Confine(ctx, cfg, s)
		}}, nil
}

// end stops the background functions and waits for them.
func (a *attempt) end() {
	if a.unlisten != nil {
		a.unlisten()
	}
	a.cancel()
	a.wg.Wait()
}

func (a *attempt) closeDir() {
	if a.dir != nil {
		a.dir.Close()
	}
}
