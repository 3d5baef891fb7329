// Package qemu is the driver "qemu". It runs a virtual machine: the task is the process of an emulator, in a sandbox.
//
//	StartTask: options ──check──▶ machine: command line, limits, sandbox.Policy ──▶ drivers/process
//	StopTask:  system_powerdown over the monitor socket ─▶ the guest ends, or kill_timeout ─▶ SIGINT ─▶ SIGKILL
//
// The emulator has a user of its own, namespaces, no capabilities, the default seccomp filter and a control
// group. Landlock restricts it to its libraries and firmware, the image, the task's directories and, for
// kvm, /dev/kvm. So a guest that takes control of its emulator has the access of a task of exec2. Package
// drivers/process implements states, recovery and exits.
//
// Intended differences from Nomad's driver:
//
//   - The emulator never runs as root: a task without a user gets one of its own.
//   - An image outside the task's directories must be accessible to that user.
//   - The emulator does not have the environment of the agent.
//   - The control group limits processes and memory, with room for the emulator itself.
//   - The monitor connection stays open until the guest has ended.
//
// Source of names, texts and the order of checks: compat/drivers-others.md, section 5.
package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind, and of the instance that every agent has.
const Name = "qemu"

// Driver runs virtual machines; it implements drivers.Driver.
type Driver struct {
	*process.Tasks
	*process.Settings[settings]
	confiner  process.Confiner
	agentDirs []string // directories of the agent, which the emulator must not see
}

// New returns an instance of the driver. The emulator does not see the supervisor's directory and own, the
// agent's other directories.
func New(name string, super *supervise.Client, agentDirs ...string) *Driver {
	d := &Driver{Settings: process.NewSettings(name, settings{}, decodeSettings), agentDirs: append(slices.Clone(agentDirs), super.Dir())}
	d.Tasks = process.NewTasks(process.Config{Name: name, Kind: Kind(), Supervisor: super, Prepare: d.program})
	d.confiner = process.Confiner{Sidecars: d.Tasks, AgentDirs: d.agentDirs}
	return d
}

var (
	_ drivers.Driver   = (*Driver)(nil)
	_ drivers.Lister   = (*Driver)(nil)
	_ drivers.Confiner = (*Driver)(nil)
	_ drivers.Isolator = (*Driver)(nil)
)

// Capabilities implements drivers.Driver.
func (d *Driver) Capabilities() drivers.Capabilities {
	c := Kind().Capabilities
	if process.OwnNamespaces() != nil || os.Geteuid() != 0 {
		c.Networks = nil
	}
	return c
}

// usable returns an error if this node cannot confine an emulator.
func usable() error {
	if os.Geteuid() != 0 {
		return errors.New("the agent must run as root, to give each emulator a user of its own")
	}
	if _, err := landlock.ABI(); err != nil {
		return err
	}
	if err := seccomp.Available(); err != nil {
		return err
	}
	if err := process.OwnNamespaces(); err != nil {
		return fmt.Errorf("the emulator needs namespaces: %w", err)
	}
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	return err
}

// Isolates implements drivers.Isolator.
func (d *Driver) Isolates(user string, config map[string]any) (drivers.Isolation, error) {
	if err := usable(); err != nil {
		return drivers.Isolation{}, err
	}
	i := isolates(user, config)
	abi, err := landlock.ABI()
	i.Sockets = abi >= landlock.ABIScopes
	return i, err
}

// StartTask implements drivers.Driver. A task with one mapped port has a network of its own.
func (d *Driver) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	h, err := d.Tasks.StartTask(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if o, err := decodeOptions(cfg.Config); err == nil && len(o.portMap) == 1 {
		h.Network = &drivers.TaskNetwork{PortMap: o.portMap}
	}
	return h, nil
}

// SignalTask implements drivers.Driver.
func (*Driver) SignalTask(string, string) error {
	return errors.New("QEMU driver can't signal commands")
}

// ExecTask hides that of process.Tasks: nothing can be run in the guest.
func (*Driver) ExecTask(context.Context, string, *drivers.ExecOptions) (*drivers.ExitResult, error) {
	return nil, errors.New("QEMU driver can't execute commands")
}

// Confine implements drivers.Confiner.
func (d *Driver) Confine(ctx context.Context, cfg *drivers.TaskConfig, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	return d.confiner.Confine(ctx, cfg, s)
}

// base returns the last part of a path, as the reference driver names virtual machines.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
