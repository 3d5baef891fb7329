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
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind, and of the instance that every agent has.
const Name = config.Driver

// Driver runs sandboxed programs; it implements drivers.Driver.
type Driver struct {
	*process.Tasks
	*process.Settings[settings]
	log       *slog.Logger
	super     *supervise.Client
	watch     *watch
	agentDirs []string // directories of the agent, which tasks must not see
}

// Config configures an instance of the driver.
type Config struct {
	Name       string // of the instance
	Log        *slog.Logger
	Supervisor *supervise.Client
	Denials    *Denials // shared by the instances of an agent; nil for one of its own
	AgentDirs  []string // directories of the agent, besides the supervisor's, which tasks must not see
}

// New returns an instance of the driver with the default settings.
func New(cfg Config) *Driver {
	log := cfg.Log.With("driver", cfg.Name)
	if cfg.Denials == nil {
		cfg.Denials = NewDenials(log)
	}
	d := &Driver{log: log, super: cfg.Supervisor, agentDirs: append(slices.Clone(cfg.AgentDirs), cfg.Supervisor.Dir()),
		Settings: process.NewSettings(cfg.Name, settings{Plugin: config.DefaultPlugin()}, decodeSettings)}
	d.watch = newWatch(cfg.Name, log, cfg.Denials, func() string { return d.Current().ExplainDenials })
	d.Tasks = process.NewTasks(process.Config{Name: cfg.Name, Kind: config.Kind(), Supervisor: cfg.Supervisor, Prepare: d.program,
		Observer: d.watch})
	return d
}

var (
	_ drivers.Driver = (*Driver)(nil)
	_ drivers.Execer = (*Driver)(nil)

	_ drivers.Confiner = (*Driver)(nil)
)

// Capabilities implements drivers.Driver.
func (d *Driver) Capabilities() drivers.Capabilities {
	return drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: drivers.FSIsolationUnveil, DynamicWorkloadUsers: true,
		Mounts: process.OwnNamespaces() == nil, Devices: true, Networks: networks(), Hostname: networks() != nil}
}

// Fingerprint implements drivers.Driver.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	f := fingerprint(d.Name(), d.Current())
	if f.Health == drivers.HealthHealthy {
		f.Attributes[drivers.Attribute(d.Name(), drivers.ExplainKey)] = string(d.watch.mode())
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
