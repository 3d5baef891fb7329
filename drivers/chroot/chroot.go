package chroot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// DefaultUser is the user of a task without one.
const DefaultUser = "nobody"

// Command is what a task runs.
type Command struct {
	Options
	Program string // looked up in the root
	Args    []string
}

// Variant is what distinguishes a driver from others of the package.
type Variant struct {
	Kind    *drivers.Kind
	Decode  func(cty.Value) (Plugin, error)
	Command func(cfg *drivers.TaskConfig) (Command, error)
	// Attributes returns the attributes of the node, relative to those of the instance. It returns false if the
	// node lacks what tasks need.
	Attributes func(ctx context.Context) (map[string]string, bool)
}

// Driver runs programs in a root directory of their own; it implements drivers.Driver.
type Driver struct {
	*process.Tasks
	*process.Settings[Plugin]
	variant   Variant
	confiner  process.Confiner
	agentDirs []string // directories of the agent, which tasks must not see
	env       map[string]string
	owners    owners
}

// Config configures an instance of a driver.
type Config struct {
	Name       string // of the instance
	Supervisor *supervise.Client
	AgentDirs  []string          // directories of the agent, besides the supervisor's, which tasks must not see
	Env        map[string]string // the client's chroot_env: source and target; empty for DefaultEnv
}

// New returns an instance of a driver with the default settings.
func New(v Variant, cfg Config) *Driver {
	d := &Driver{variant: v, env: cfg.Env, agentDirs: append(slices.Clone(cfg.AgentDirs), cfg.Supervisor.Dir()),
		Settings: process.NewSettings(cfg.Name, DefaultPlugin(), v.Decode)}
	if len(d.env) == 0 {
		d.env = DefaultEnv()
	}
	d.Tasks = process.NewTasks(process.Config{Name: cfg.Name, Kind: v.Kind, Supervisor: cfg.Supervisor, Prepare: d.program})
	d.confiner = process.Confiner{Sidecars: d.Tasks, AgentDirs: d.agentDirs}
	return d
}

var (
	_ drivers.Driver   = (*Driver)(nil)
	_ drivers.Execer   = (*Driver)(nil)
	_ drivers.Lister   = (*Driver)(nil)
	_ drivers.Reporter = (*Driver)(nil)
	_ drivers.Confiner = (*Driver)(nil)
	_ drivers.Isolator = (*Driver)(nil)
)

// Capabilities returns those of all drivers of the package.
func Capabilities() drivers.Capabilities {
	return drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: drivers.FSIsolationChroot, DefaultUser: DefaultUser, Mounts: true,
		Devices: true, Networks: []string{drivers.NetworkHost, drivers.NetworkGroup}, Hostname: true,
		Propagations: []string{drivers.PropagateToTask, drivers.PropagateBoth}}
}

// Capabilities implements drivers.Driver.
func (d *Driver) Capabilities() drivers.Capabilities { return d.variant.Kind.Capabilities }

// Texts of the fingerprint.
const (
	notRoot  = "Driver must run as root"
	noGroups = "Failed to discover cgroup mount point"
)

// Fingerprint implements drivers.Driver.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	ch := make(chan drivers.Fingerprint, 1)
	go func() { // Attributes may run a program
		defer close(ch)
		ch <- d.fingerprint(ctx)
		<-ctx.Done()
	}()
	return ch
}

func (d *Driver) fingerprint(ctx context.Context) drivers.Fingerprint {
	if os.Geteuid() != 0 {
		return drivers.Fingerprint{Health: drivers.HealthUndetected, Description: notRoot}
	}
	if err := d.usable(); err != nil {
		return drivers.Fingerprint{Health: drivers.HealthUnhealthy, Description: err.Error()}
	}
	f := drivers.Fingerprint{Health: drivers.HealthHealthy, Description: "Healthy",
		Attributes: map[string]string{drivers.Attribute(d.Name(), ""): "1"}}
	if d.variant.Attributes == nil {
		return f
	}
	attributes, ok := d.variant.Attributes(ctx)
	if !ok {
		return drivers.Fingerprint{Health: drivers.HealthUndetected}
	}
	for key, value := range attributes {
		f.Attributes[drivers.Attribute(d.Name(), key)] = value
	}
	return f
}

// usable returns an error if this node cannot run any task.
func (d *Driver) usable() error {
	if os.Geteuid() != 0 {
		return errors.New(notRoot)
	}
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if err != nil {
		return errors.New(noGroups + ": " + err.Error())
	}
	if err := process.OwnNamespaces(); err != nil {
		return fmt.Errorf("tasks need namespaces, which this agent cannot create: %w", err)
	}
	if d.Current().Seccomp {
		return seccomp.Available()
	}
	return nil
}

// Report implements drivers.Reporter.
func (d *Driver) Report(ctx context.Context, report func(*drivers.TaskEvent)) error {
	d.ReportLogs(ctx, report)
	return ctx.Err()
}

// Confine implements drivers.Confiner. The sidecar has the task's user without capabilities, sees paths of the host,
// and is restricted to its own.
func (d *Driver) Confine(ctx context.Context, cfg *drivers.TaskConfig, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	set := d.Current()
	acc, err := set.account(cfg.User)
	if err != nil {
		return nil, err
	}
	as := *cfg
	as.User = acc.Name
	return d.confiner.Confine(ctx, &as, s)
}

// program returns the program of a task.
func (d *Driver) program(cfg *drivers.TaskConfig) (*process.Program, error) {
	s, err := d.setup(cfg)
	if err != nil {
		return nil, err
	}
	p := &process.Program{Environment: s.environment(), Limits: s.limits()}
	if p.Policy, err = s.policy(); err != nil {
		return nil, err
	}
	p.Declared, err = sandbox.Declare(p.Policy)
	return p, err
}

// strictest is the config block of a task with the highest level.
var strictest = map[string]any{"cap_drop": []string{"all"}, "pid_mode": modePrivate, "ipc_mode": modePrivate}

// Isolates implements drivers.Isolator.
func (d *Driver) Isolates(user string, config map[string]any) (drivers.Isolation, error) {
	if err := d.usable(); err != nil {
		return drivers.Isolation{}, err
	}
	if config == nil {
		config = strictest
	}
	set := d.Current()
	i := set.isolation(user, config)
	i.Sockets = set.Landlock && landlockABI() >= landlock.ABIScopes
	if acc, err := set.account(user); err == nil && acc.UID == 0 {
		i.User = drivers.UserRoot
	}
	return i, nil
}
