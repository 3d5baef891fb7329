// Package exec2 is the driver "exec2": it runs a program of the host in a sandbox
// made of Landlock paths, a uid of its own, no capabilities, seccomp, a private IPC
// namespace and a control group with hard limits. The task sees host paths, those
// that were unveiled to it. States, recovery and exits are those of drivers/process.
//
// Where it differs from the driver it is compatible with, on purpose: a task has a
// bound of processes (max_processes, by default a share of the host's), default
// folders that are absent are skipped, root needs the operator's allow_root, the
// environment holds nothing of the agent's, a death by signal N is status 128+N with
// the signal, a tiny CPU share is raised to what the kernel takes, and there is no
// process between the supervisor and the task.
//
// It is never silently weaker. Without root there is no uid, no control group and
// no private IPC; then the driver is unhealthy, and says what is missing, until the
// operator sets allow_unprivileged. A kernel whose Landlock is older than
// landlock_min_abi makes it unhealthy too.
package exec2

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name of the driver in a task's driver attribute.
const Name = "exec2"

// Driver runs sandboxed programs; it implements drivers.Driver.
type Driver struct {
	process.Tasks
	*process.Settings[settings]
	log   *slog.Logger
	super *supervise.Client
}

// New returns the driver with the default settings.
func New(log *slog.Logger, super *supervise.Client) *Driver {
	return &Driver{log: log.With("driver", Name), super: super, Settings: process.NewSettings(Name, defaults, decodeSettings),
		Tasks: process.Tasks{Driver: Name, DefaultStop: syscall.SIGINT, Supervisor: super}}
}

var _ drivers.Driver = (*Driver)(nil)

// Name implements drivers.Driver.
func (d *Driver) Name() string { return Name }

// ConfigSpec implements drivers.Driver.
func (d *Driver) ConfigSpec() hcldec.Spec { return configSpec }

// TaskSpec implements drivers.Driver.
func (d *Driver) TaskSpec() hcldec.Spec { return taskSpec }

// Capabilities implements drivers.Driver.
func (d *Driver) Capabilities() drivers.Capabilities {
	return drivers.Capabilities{SendSignals: true, FSIsolation: drivers.FSIsolationUnveil, DynamicWorkloadUsers: true}
}

// Fingerprint implements drivers.Driver.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	return process.Steady(ctx, d.Current().fingerprint())
}

func (s settings) fingerprint() drivers.Fingerprint {
	missing, err := s.check()
	if err != nil {
		return drivers.Fingerprint{Health: drivers.HealthUnhealthy, Description: err.Error()}
	}
	facts := s.facts()
	f := drivers.Fingerprint{Health: drivers.HealthHealthy, Description: "Healthy", Attributes: map[string]string{
		"driver.exec2.unveil.tasks":    strconv.FormatBool(s.unveilByTask),
		"driver.exec2.unveil.defaults": strconv.FormatBool(s.unveilDefaults),
		"driver.exec2.unprivileged":    strconv.FormatBool(len(missing) > 0),
	}}
	maps.Copy(f.Attributes, facts.Attributes(Name))
	if len(missing) > 0 {
		f.Description = "Healthy, allow_unprivileged without: " + strings.Join(missing, ", ")
	}
	return f
}

// check returns what of the sandbox this node can't do, allowed by the operator,
// or an error for what is not allowed.
func (s settings) check() (missing []string, err error) {
	abi, err := landlock.ABI()
	if err != nil {
		return nil, err
	}
	if abi < s.minABI {
		return nil, fmt.Errorf("landlock ABI %d of this kernel is below %d; landlock_min_abi can lower what is demanded", abi, s.minABI)
	}
	if err := seccomp.Available(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		missing = []string{"a uid per task", "control group", "private IPC"}
	} else if err := groupsUsable(); err != nil {
		missing = []string{"control group (" + err.Error() + ")"}
	}
	if len(missing) > 0 && !s.allowUnprivileged {
		return nil, fmt.Errorf("this node lacks: %s; allow_unprivileged runs tasks without", strings.Join(missing, ", "))
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

// StartTask implements drivers.Driver.
func (d *Driver) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	set := d.Current()
	missing, err := set.check()
	if err != nil {
		return nil, err
	}
	if cfg.NetNS != "" {
		return nil, fmt.Errorf("driver %s cannot join a network namespace yet: use the host's network", Name)
	}
	if len(cfg.Mounts) > 0 {
		return nil, fmt.Errorf("driver %s cannot mount yet", Name)
	}
	opts, err := decodeOptions(cfg.Config)
	if err != nil {
		return nil, err
	}
	if len(opts.unveil) > 0 && !set.unveilByTask {
		return nil, errors.New("task set unveil paths but driver config does not allow this")
	}
	acc, err := set.account(cfg)
	if err != nil {
		return nil, err
	}
	policy, err := set.policy(cfg, opts, acc)
	if err != nil {
		return nil, err
	}
	spec, err := process.Spec(cfg, policy)
	if err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		l := limits(cfg.Limits)
		if l.Processes, err = set.processes(); err != nil {
			return nil, err
		}
		spec.Group = &supervise.Group{Group: process.GroupName(cfg), Limits: l}
	}
	if err := prepareDirectories(cfg, policy.User); err != nil {
		return nil, err
	}
	if _, err := d.super.Start(ctx, spec); err != nil {
		return nil, process.StartFailure(err)
	}
	return d.Started(cfg)
}

// limits are hard: memory up to memory_max, and the CPU that was asked for.
func limits(r drivers.LinuxResources) cgroup.Limits {
	l := cgroup.Limits{MemoryMax: r.MemoryBytes, CPUShares: r.CPUShares, Cores: r.Cores}
	if r.MemoryMaxBytes > 0 {
		l.MemoryLow, l.MemoryMax = r.MemoryBytes, max(r.MemoryMaxBytes, r.MemoryBytes)
	}
	if r.MHzPerCore > 0 {
		l.CPUQuota = r.CPUShares * cgroup.CPUPeriod / int64(r.MHzPerCore)
	}
	return l
}
