// Package exec2 is the driver "exec2". It runs a program of the host in a sandbox:
//
//   - Landlock restricts the paths that the task can open. Seccomp restricts its system calls.
//   - The task has no capabilities.
//   - Each task has its own uid, and namespaces for processes, IPC and mounts, with a private /tmp and /proc.
//   - The task uses the network of its group.
//   - A control group sets hard limits.
//
// The task sees host paths that were unveiled to it, its volumes, and its own processes. Programs of
// the client that work for the task, such as the download of its artifacts, run in the same sandbox.
// They see only their own paths (Confine). Package drivers/process implements states, recovery and
// exits.
//
// Package config defines the options. Intended differences to the reference driver:
//
//   - A task has a process limit (pids_limit).
//   - Default paths that do not exist are skipped.
//   - Running as root or in root's group requires the operator's allow_root.
//   - The task gets no environment variables of the agent.
//   - A task that is killed by signal N has the exit status 128+N and the signal.
//   - A CPU share below the kernel's minimum is raised to it.
//   - The only process between the supervisor and the task is a small process 1.
//
// The sandbox is never silently weaker. Without root there is no uid per task, and there are
// namespaces only if user namespaces are allowed. The driver is then unhealthy, with a list of what is
// missing, until the operator sets allow_unprivileged. A kernel with a Landlock ABI below require_abi
// makes it unhealthy, too.
package exec2

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind, and of the instance that every agent has.
const Name = config.Driver

// Driver runs sandboxed programs; it implements drivers.Driver.
type Driver struct {
	process.Tasks
	*process.Settings[settings]
	name  string // of the instance
	log   *slog.Logger
	super *supervise.Client
	watch *watch
	own   []string // directories of the agent, which tasks must not see
}

// Config configures an instance of the driver.
type Config struct {
	Name       string // of the instance
	Log        *slog.Logger
	Supervisor *supervise.Client
	Denials    *Denials // shared by the instances of an agent; nil for one of its own
	Own        []string // directories of the agent, besides the supervisor's, which tasks must not see
}

// New returns an instance of the driver with the default settings.
func New(cfg Config) *Driver {
	log, super := cfg.Log.With("driver", cfg.Name), cfg.Supervisor
	if cfg.Denials == nil {
		cfg.Denials = NewDenials(log)
	}
	return &Driver{name: cfg.Name, log: log, super: super, own: append(slices.Clone(cfg.Own), super.Dir()),
		watch:    newWatch(cfg.Name, log, cfg.Denials),
		Settings: process.NewSettings(cfg.Name, settings{Plugin: config.DefaultPlugin()}, decodeSettings),
		Tasks:    process.Tasks{Driver: cfg.Name, Backend: Name, DefaultStop: config.Kind().KillSignal, Supervisor: super}}
}

var (
	_ drivers.Driver = (*Driver)(nil)
	_ drivers.Execer = (*Driver)(nil)

	_ drivers.Confiner = (*Driver)(nil)
)

// Name implements drivers.Driver.
func (d *Driver) Name() string { return d.name }

// ConfigSpec implements drivers.Driver.
func (d *Driver) ConfigSpec() hcldec.Spec { return config.PluginSpec }

// TaskSpec implements drivers.Driver.
func (d *Driver) TaskSpec() hcldec.Spec { return config.TaskSpec }

// Capabilities implements drivers.Driver.
func (d *Driver) Capabilities() drivers.Capabilities {
	return drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: drivers.FSIsolationUnveil, DynamicWorkloadUsers: true,
		Mounts: process.OwnNamespaces() == nil, Networks: networks(), Hostname: networks() != nil}
}

// Fingerprint implements drivers.Driver.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	set := d.Current()
	f := fingerprint(d.name, set)
	if f.Health == drivers.HealthHealthy {
		f.Attributes[drivers.Attribute(d.name, drivers.ExplainKey)] = string(d.watch.mode(set.Plugin))
	}
	return process.Steady(ctx, f)
}

func fingerprint(name string, set settings) drivers.Fingerprint {
	missing, err := check(set.Plugin, groupsUsable())
	if err != nil {
		return drivers.Fingerprint{Health: drivers.HealthUnhealthy, Description: err.Error()}
	}
	f := drivers.Fingerprint{Health: drivers.HealthHealthy, Description: "Healthy", Attributes: map[string]string{
		drivers.Attribute(name, drivers.UnveilKey): strconv.FormatBool(set.UnveilByTask),
		drivers.Attribute(name, "unveil.defaults"): strconv.FormatBool(set.UnveilDefaults),
		drivers.Attribute(name, "unprivileged"):    strconv.FormatBool(len(missing) > 0),
	}}
	maps.Copy(f.Attributes, set.attributes(name))
	if len(missing) > 0 {
		f.Description = "Healthy; missing (allowed by allow_unprivileged): " + strings.Join(missing, ", ")
	}
	return f
}

// check returns the parts of the sandbox that this node does not support, if the operator allows
// that. Otherwise it returns an error. groups is the reason why control groups are not available, or nil.
func check(set config.Plugin, groups error) (missing []string, err error) {
	abi, err := landlock.ABI()
	if err != nil {
		return nil, err
	}
	if abi < set.RequireABI {
		return nil, fmt.Errorf("landlock ABI %d of this kernel is below the require_abi of %d in the driver config", abi, set.RequireABI)
	}
	if err := seccomp.Available(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		missing = append(missing, "a uid per task")
	}
	if groups != nil {
		missing = append(missing, "control group ("+groups.Error()+")")
	}
	if err := process.OwnNamespaces(); err != nil {
		missing = append(missing, "namespaces ("+err.Error()+")")
	}
	if len(missing) > 0 && !set.AllowUnprivileged {
		return nil, fmt.Errorf("this node lacks: %s; set allow_unprivileged to run tasks without them", strings.Join(missing, ", "))
	}
	return missing, nil
}

func groupsUsable() error {
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	return h.Usable()
}

// prepared is what a task and its sidecars need to start.
type prepared struct {
	set     settings
	task    config.Task
	account hostuser.User
	groups  error // why control groups are not available, or nil
}

// prepare checks that this node can run the task, and makes the directories of the task ready.
func (d *Driver) prepare(cfg *drivers.TaskConfig) (*prepared, error) {
	r := &prepared{set: d.Current(), groups: groupsUsable()}
	_, err := check(r.set.Plugin, r.groups)
	if err != nil {
		return nil, err
	}
	if r.task, err = config.DecodeTask(cfg.Config); err != nil {
		return nil, err
	}
	if err := demands(r.task); err != nil {
		return nil, err
	}
	if r.account, err = account(r.set.Plugin, cfg); err != nil {
		return nil, err
	}
	return r, prepareDirectories(cfg, r.account)
}

// StartTask implements drivers.Driver.
func (d *Driver) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	defer d.super.Turn()()
	r, err := d.prepare(cfg)
	if err != nil {
		return nil, err
	}
	set, t, acc, groups := r.set, r.task, r.account, r.groups
	p, err := d.policy(set, cfg, t, acc)
	if err != nil {
		return nil, err
	}
	spec, err := process.Spec(cfg, p)
	if err != nil {
		return nil, err
	}
	l, err := limits(set.Plugin, t, cfg.Limits)
	switch {
	case err != nil:
		return nil, err
	case groups == nil:
		spec.Group = &supervise.Group{Group: process.GroupName(cfg), Limits: l}
	case t.PIDsLimit > 0:
		return nil, errors.New("pids_limit: this node has no control groups to enforce it")
	}
	if spec.Declared, err = declare(p, spec.Group); err != nil {
		return nil, err
	}
	return d.start(ctx, cfg, spec, acc)
}

// start has the supervisor start a task. The watch begins before its first instruction.
func (d *Driver) start(ctx context.Context, cfg *drivers.TaskConfig, spec *supervise.Spec, acc hostuser.User) (*drivers.TaskHandle, error) {
	w := denials.Task{ID: cfg.ID, UID: dynamicUID(cfg.User, acc)}
	if spec.Group != nil {
		w.Group = spec.Group.Name
	}
	explained := d.watch.mode(d.Current().Plugin) != denials.Off
	d.watch.begin(w, explained)
	var running *proc.Task
	err := d.StartIn(ctx, spec.Group, func() (err error) {
		running, err = d.super.Start(ctx, spec)
		return err
	})
	if err != nil {
		d.watch.end(cfg.ID)
		return nil, process.StartFailure(err)
	}
	w.PID = running.PID
	d.watch.begin(w, explained)
	d.watch.started(cfg.ID)
	return d.Started(cfg, spec.Group, process.SessionData{Environment: environment(cfg, acc)})
}

// demands returns an error if the task needs more than the kernel has. Servers place tasks by the
// same rule, unless only the node knows the value.
func demands(t config.Task) error {
	abi, err := landlock.ABI()
	switch {
	case err != nil:
		return err
	case abi < t.RequireABI:
		return fmt.Errorf("require_abi: the task requires Landlock ABI %d, this node's kernel has %d", t.RequireABI, abi)
	case t.Network != nil && abi < landlock.ABITCP:
		return fmt.Errorf("network: restricting TCP ports needs Landlock ABI %d, this node's kernel has %d", landlock.ABITCP, abi)
	}
	return nil
}

// policy returns the complete policy of the task, including its system calls.
func (d *Driver) policy(set settings, cfg *drivers.TaskConfig, t config.Task, acc hostuser.User) (*sandbox.Policy, error) {
	p, err := policy(set.Plugin, cfg, t, acc)
	if err != nil {
		return nil, err
	}
	if err := d.hideAgent(p, cfg.AllocDir); err != nil {
		return nil, err
	}
	if p.OwnUsers {
		p.KeepLinks()
	}
	if err := filter(set, t, p); err != nil {
		return nil, err
	}
	explain := d.watch.mode(set.Plugin)
	p.LogDenials, p.LogCalls = explain == denials.Audit, explain != denials.Off
	return p, nil
}
