package taskrunner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskenv"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// attempt is one start of the task, with the results and the background functions of its hooks.
type attempt struct {
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

// newAttempt returns an attempt whose background functions run until end is called or ctx ends.
func (r *Runner) newAttempt(ctx context.Context) *attempt {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{cancel: cancel, owner: taskhook.Owner{UID: -1, GID: -1}}
	a.run = func(background func(context.Context)) {
		if background != nil {
			a.wg.Go(func() { background(ctx) })
		}
	}
	return a
}

// end stops the background functions and waits for them.
func (a *attempt) end() {
	if a.unlisten != nil {
		a.unlisten()
	}
	a.cancel()
	a.wg.Wait()
}

// start runs the prestart hooks and starts the process with the driver.
func (r *Runner) start(ctx context.Context) error {
	hookCtx, cancel := r.untilKilled(ctx)
	defer cancel()
	if err := r.runPrestart(hookCtx); err != nil {
		return err
	}
	cfg, env, err := r.taskConfig()
	if err != nil {
		return err
	}
	if err := r.isolate(cfg, env); err != nil {
		return err
	}
	driver := r.cfg.Driver
	// Stored before the start, so that a later agent finds the process and its user.
	r.local.TaskHandle = &drivers.TaskHandle{Driver: driver.Name(), TaskID: cfg.ID}
	if err := r.cfg.Store.PutTask(r.cfg.Alloc.ID, r.name, state.Task{Local: &r.local}); err != nil {
		return &drivers.RecoverableError{Err: fmt.Errorf("store state of task %s: %w", r.name, err)}
	}
	r.listenEvents(cfg.ID)
	// Not cancelled: a process that started despite a cancellation would have no owner.
	handle, err := driver.StartTask(context.WithoutCancel(ctx), cfg)
	if err != nil {
		r.local.TaskHandle = nil
		return &taskhook.Fault{Type: nomad.TaskDriverFailure, Err: err}
	}
	r.local.TaskHandle, r.local.DriverNetwork = handle, handle.Network
	if err := r.cfg.Store.PutTaskLater(r.cfg.Alloc.ID, r.name, state.Task{Local: &r.local}); err != nil {
		r.log.Warn("store task handle", "err", err)
	}
	r.running(hookCtx, cfg.ID, env, levelOf(cfg, handle))
	return nil
}

// running marks the task as running and runs the poststart hooks.
func (r *Runner) running(ctx context.Context, id string, env *taskenv.Env, level string) {
	now := time.Now()
	r.setID(id)
	r.update(func(s *nomad.TaskState) {
		s.State = nomad.TaskStateRunning
		s.StartedAt = now
		s.Isolation = level
	}, &nomad.TaskEvent{Type: nomad.TaskStarted})
	count(r, "running", true)
	r.runPoststart(ctx, env, now)
}

// untilKilled returns a context that also ends when the task is killed. It is already cancelled
// if the task was killed before.
func (r *Runner) untilKilled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if r.isKilled() {
		cancel()
		return ctx, cancel
	}
	go func() {
		select {
		case <-r.killed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// taskConfig builds the driver's configuration of the task.
func (r *Runner) taskConfig() (*drivers.TaskConfig, *taskenv.Env, error) {
	alloc, task := r.current()
	env := r.env.Build()
	config, err := env.Config(task.Config, r.cfg.Driver.TaskSpec())
	if err != nil {
		err = fmt.Errorf("task %q, driver %q: %w", task.Name, task.Driver, err)
		return nil, nil, &taskhook.Fault{Type: nomad.TaskFailedValidation, Err: err}
	}
	if err := r.checkPrivilege(task, env); err != nil {
		return nil, nil, err
	}
	if len(r.try.devices) > 0 && !r.cfg.Driver.Capabilities().Devices {
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
		NodeID:       r.cfg.Node.ID,
		NodeName:     r.cfg.Node.Name,
		User:         r.try.owner.User,
		Env:          env.Map(),
		Config:       config,
		Privileged:   task.Privileged,
		Limits:       r.limits(resources),
		Ports:        ports(alloc, resources),
		AllocDir:     r.cfg.Dir.Path(),
		TaskDir:      r.dir.Path(),
		SharedDir:    r.cfg.Dir.SharedPath(),
		LocalDir:     r.dir.LocalPath(),
		SecretsDir:   r.dir.SecretsPath(),
		LogDir:       r.cfg.Dir.LogPath(),
		Log:          r.try.log,
		Mounts:       r.try.mounts,
		Devices:      r.try.devices,
		Files:        r.try.files,
		Writable:     volumePaths(r.cfg.Node),
		DNS:          r.try.dns,
		NetNS:        r.cfg.NetNS,
		NetLabels:    r.cfg.NetLabels,
		Hostname:     r.cfg.Hostname,
		CgroupParent: cgroupParent(r.cfg.Node),
	}, env, nil
}

// volumePaths returns the host paths of all volumes of a node.
func volumePaths(n *nomad.Node) []string {
	var out []string
	for _, v := range n.HostVolumes {
		out = append(out, v.Path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// taskID returns a driver task ID that is unique per start.
func taskID(alloc, task string) string {
	var b [4]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return alloc + "/" + task + "/" + hex.EncodeToString(b[:])
}

// allocated returns the resources of a task.
func allocated(a *nomad.Allocation, task string) *nomad.AllocatedTaskResources {
	if a.AllocatedResources != nil && a.AllocatedResources.Tasks[task] != nil {
		return a.AllocatedResources.Tasks[task]
	}
	return &nomad.AllocatedTaskResources{}
}

func (r *Runner) limits(res *nomad.AllocatedTaskResources) drivers.LinuxResources {
	limits := drivers.LinuxResources{
		MemoryBytes: res.Memory.MemoryMB * nomad.BytesInMegabyte,
		CPUShares:   res.Cpu.CpuShares,
		MHzPerCore:  r.cfg.MHzPerCore,
		Cores:       res.Cpu.ReservedCores,
	}
	switch {
	case res.Memory.MemoryMaxMB == nomad.MemoryNoLimit:
		limits.MemoryMaxBytes = -1
	case res.Memory.MemoryMaxMB > res.Memory.MemoryMB:
		limits.MemoryMaxBytes = res.Memory.MemoryMaxMB * nomad.BytesInMegabyte
	}
	return limits
}

// ports returns the ports of the group's network and of the task.
func ports(a *nomad.Allocation, res *nomad.AllocatedTaskResources) []drivers.Port {
	var list []drivers.Port
	if a.AllocatedResources != nil {
		for _, p := range a.AllocatedResources.Shared.Ports {
			list = append(list, drivers.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
		}
	}
	for _, n := range res.Networks {
		for _, p := range append(n.ReservedPorts[:len(n.ReservedPorts):len(n.ReservedPorts)], n.DynamicPorts...) {
			list = append(list, drivers.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: n.IP, Own: true})
		}
	}
	return list
}

func cgroupParent(n *nomad.Node) string {
	if n.CgroupParent != "" {
		return n.CgroupParent
	}
	return "nomad.slice"
}

// emitFault emits the event of a failed start.
func (r *Runner) emitFault(err error) {
	var fault *taskhook.Fault
	if !errors.As(err, &fault) {
		r.Emit(&nomad.TaskEvent{Type: nomad.TaskHookFailed, Message: err.Error()})
		return
	}
	e := fault.Event()
	if fault.Type == nomad.TaskDriverFailure {
		e.DriverError, e.Message = fault.Error(), ""
	}
	r.Emit(e)
}
