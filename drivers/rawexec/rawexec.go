// Package rawexec is the driver "raw_exec": it runs a program on the host with the agent's rights and
// without a sandbox. The operator must enable it. The program keeps all rights of the agent. It is in the
// network namespace of its group, if that has one, but has the files of the host. It has its own session
// and control group, the descriptors 0–2 only, and the environment of the job and the client. Programs of
// the client that work for a task are confined (process.Confiner). Package drivers/process implements
// states, recovery and exits.
package rawexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind, and of the instance that every agent has.
const Name = "raw_exec"

// Driver runs programs unconfined; it implements drivers.Driver.
type Driver struct {
	*process.Tasks
	*process.Settings[settings]
	confiner process.Confiner
}

// New returns an instance of the driver, disabled until SetConfig enables it. Its tasks see every file,
// but programs of the client that work for them do not see the supervisor's directory and own, the
// agent's other directories.
func New(name string, super *supervise.Client, agentDirs ...string) *Driver {
	d := &Driver{Settings: process.NewSettings(name, settings{}, decodeSettings)}
	d.Tasks = process.NewTasks(process.Config{Name: name, Kind: Kind(), Supervisor: super, Prepare: d.program})
	d.confiner = process.Confiner{Sidecars: d.Tasks, AgentDirs: append(slices.Clone(agentDirs), super.Dir())}
	return d
}

var (
	_ drivers.Driver   = (*Driver)(nil)
	_ drivers.Execer   = (*Driver)(nil)
	_ drivers.Lister   = (*Driver)(nil)
	_ drivers.Reporter = (*Driver)(nil)
	_ drivers.Confiner = (*Driver)(nil)

	_ drivers.Privileger = (*Driver)(nil)
)

// Capabilities implements drivers.Driver.
func (d *Driver) Capabilities() drivers.Capabilities {
	c := Kind().Capabilities
	if os.Geteuid() != 0 {
		c.Networks = nil // only root joins a network namespace
	}
	return c
}

// Privilege implements drivers.Privileger. Every task needs privilege.
func (d *Driver) Privilege() drivers.Privilege {
	set := d.Current()
	return drivers.Privilege{Offered: set.enabled, Legacy: set.legacy, Needs: needsPrivilege}
}

// Fingerprint implements drivers.Driver.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	f := drivers.Fingerprint{Health: drivers.HealthUndetected, Description: fmt.Sprintf("disabled: plugin %q has no enabled = true", d.Name())}
	if d.Current().enabled {
		f = drivers.Fingerprint{Health: drivers.HealthHealthy, Description: "Healthy",
			Attributes: map[string]string{drivers.Attribute(d.Name(), ""): "1"}}
	}
	return process.Steady(ctx, f)
}

// Report implements drivers.Reporter.
func (d *Driver) Report(ctx context.Context, report func(*drivers.TaskEvent)) error {
	d.ReportLogs(ctx, report)
	return ctx.Err()
}

// usable returns an error if the settings of the instance or the rights of the agent exclude every task like cfg.
func (s settings) usable(name string, cfg *drivers.TaskConfig) error {
	if !s.enabled {
		return fmt.Errorf("driver %s is disabled on this node", name)
	}
	if cfg.NetNS != "" && os.Geteuid() != 0 {
		return fmt.Errorf("driver %s can join the network of a group only if the agent runs as root", name)
	}
	return nil
}

// Confine implements drivers.Confiner. Unlike the task, the sidecar has no capabilities and is
// restricted to its paths. The driver's rules on users hold for it, too.
func (d *Driver) Confine(ctx context.Context, cfg *drivers.TaskConfig, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	set := d.Current()
	if err := set.usable(d.Name(), cfg); err != nil {
		return nil, err
	}
	if _, err := set.account(cfg); err != nil {
		return nil, err
	}
	return d.confiner.Confine(ctx, cfg, s)
}

// program returns the program of a task.
func (d *Driver) program(cfg *drivers.TaskConfig) (*process.Program, error) {
	set := d.Current()
	if err := set.usable(d.Name(), cfg); err != nil {
		return nil, err
	}
	opts, err := decodeOptions(cfg.Config)
	if err != nil {
		return nil, err
	}
	p := &process.Program{Environment: set.environment(opts)}
	if p.Policy, err = set.policy(cfg, opts); err != nil {
		return nil, err
	}
	if p.Declared, err = sandbox.Declare(p.Policy); err != nil {
		return nil, err
	}
	return p, setGroups(p, cfg, opts)
}

// setGroups selects the task's control groups: weights and cores, no hard limits. An agent without
// root uses none. An operator's group (an override) replaces ours in its tree. In the version 2
// tree the task is then tracked by its session only.
func setGroups(p *process.Program, cfg *drivers.TaskConfig, o options) error {
	if os.Geteuid() != 0 {
		if o.overrideV2 != "" || o.overrideV1 != nil {
			return errors.New("a control group override needs an agent that runs as root")
		}
		return nil
	}
	h, err := cgroup.Detect()
	if errors.Is(err, cgroup.ErrUnavailable) && o.overrideV2 == "" && o.overrideV1 == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if o.overrideV2 != "" {
		file, err := h.Existing("", o.overrideV2)
		if err != nil {
			return fmt.Errorf("cgroup_v2_override: %w", err)
		}
		p.Join = append(p.Join, file)
	} else {
		p.Limits = &cgroup.Limits{CPUShares: cfg.Limits.CPUShares, Cores: cfg.Limits.Cores}
	}
	for controller, path := range o.overrideV1 {
		file, err := h.Existing(controller, path)
		if err != nil {
			return fmt.Errorf("cgroup_v1_override: %w", err)
		}
		p.Join = append(p.Join, file)
	}
	return nil
}

// environment removes the variables that the operator and the job deny.
func (s settings) environment(o options) process.Environment {
	return process.Environment{Without: slices.Concat(s.deniedEnv, o.deniedEnv)}
}

// policy returns a policy that keeps every right.
func (s settings) policy(cfg *drivers.TaskConfig, o options) (*sandbox.Policy, error) {
	p := &sandbox.Policy{
		Argv: append([]string{o.command}, o.args...), Dir: o.workDir,
		Search:      []string{cfg.LocalDir, cfg.TaskDir},
		NetNS:       cfg.NetNS,
		OOMScoreAdj: o.oomScoreAdj, KeepCapabilities: true, KeepPrivileges: true, Seccomp: sandbox.SeccompNone,
	}
	if p.Dir == "" {
		p.Dir = cfg.TaskDir
	} else if !filepath.IsAbs(p.Dir) {
		return nil, fmt.Errorf("work_dir %q is not absolute", p.Dir)
	} else {
		p.DirAs = sandbox.DirAsUser
	}
	p.Env = s.environment(o).Apply(cfg.Env)
	user, err := s.account(cfg)
	if err != nil || user == nil {
		return p, err
	}
	p.User = user
	p.KeepCapabilities = user.UID == 0
	return p, nil
}

// account returns the user of the task, nil for the agent's, if the operator allows it.
func (s settings) account(cfg *drivers.TaskConfig) (*sandbox.User, error) {
	if cfg.User == "" {
		return nil, s.allowAgent()
	}
	acc, err := hostuser.Lookup(cfg.User)
	if err != nil {
		return nil, err
	}
	if err := s.allow(acc.UID, append([]uint32{acc.GID}, acc.Groups...)); err != nil {
		return nil, err
	}
	if int(acc.UID) == os.Geteuid() {
		return nil, s.allowAgent()
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("running as user %s needs an agent that runs as root", acc.Name)
	}
	return &sandbox.User{UID: acc.UID, GID: acc.GID, Groups: acc.Groups}, nil
}
