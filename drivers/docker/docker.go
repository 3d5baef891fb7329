// Package docker is the driver "docker": it runs a task as a container of a Docker daemon.
//
//	image (local, load, pull) ─▶ container config ─▶ create ─▶ start ─▶ running ─▶ exited ─▶ removed
//	                                 │                                    ▲
//	             checks of the plugin's configuration            RecoverTask, by label or handle
//
// The daemon runs the containers. They continue while the agent, or the connection to the daemon, is
// down. Each container has labels with its allocation, its task ID, the instance of the driver and the
// agent. By them, a restarted agent finds containers without a handle.
//
// The daemon writes the output of a container to its own log. The driver follows that log and copies it
// to FIFOs of the supervisor. So an agent that starts later can copy what was written in the meantime.
//
// The driver checks each option of a job before it passes it to the daemon. An option that the
// configuration of the plugin does not allow, or that this driver does not have, is an error that names
// the option. Tasks can create links in the directory of their allocation. So paths there are opened
// once, and the open file is mounted (points).
//
// Package config has the options and their checks, which servers run too. Package images pulls, loads and removes images; a
// container runs by the ID of its image. Package observe reads what a container has from the kernel, and verify compares
// that with what the daemon was asked for. Package files opens paths that tasks can change.
//
// Goroutines: two per task, which wait for its end and copy its output; those of images; and those of
// Fingerprint, TaskStats and exec sessions. Instances share only the daemon.
package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/moby/moby/client"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/drivers/docker/images"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind.
const Name = config.Name

// Logs collects the output of tasks that the supervisor does not run (supervise.Client).
type Logs interface {
	Collect(ctx context.Context, id string, logs proc.Logs) (stdout, stderr string, err error)
	Kill(ctx context.Context, id string) (*proc.Exit, error)
	Forget(ctx context.Context, id string) error
	FaultyTasks(ctx context.Context) ([]proc.Task, error)
}

// Config configures a Driver.
type Config struct {
	Name string // of the instance
	// Agent identifies the agent on this machine, for example by its state directory. A driver lists and
	// removes only containers of its agent.
	Agent string
	// Dir is for mount points of this instance. It is created when a task needs it.
	Dir string
	// Images is for what the agent remembers about images, and for copies of archives. It is created with mode 0700. The
	// instances of an agent share it.
	Images string
	Log    *slog.Logger
	Logs   Logs
	Pace   Pace
}

// Pace holds the intervals of the driver. Those that are 0 have the default.
type Pace struct {
	Fingerprint time.Duration // between two queries of the daemon; 30 s
	Retry       time.Duration // first delay before a failed call is repeated, doubled up to 30 s; 500 ms
	Progress    time.Duration // between two events about a pull; 2 min
	Activity    time.Duration // between two checks of a pull; 10 s
}

// Driver runs tasks as containers. It implements drivers.Driver, Execer, Reporter, Lister,
// NetworkCreator, Isolator and Privileger.
type Driver struct {
	cfg      Config
	log      *slog.Logger
	set      config.Plugin  // never changes after SetConfig
	api      *client.Client // likewise
	images   *images.Store
	points   points
	accounts accounts

	mu       sync.Mutex
	tasks    map[string]*task
	networks []string // allocations with a pause container
	detected bool
	tell     func(*drivers.TaskEvent) // nil without Report
}

var (
	_ drivers.Driver         = (*Driver)(nil)
	_ drivers.Execer         = (*Driver)(nil)
	_ drivers.Reporter       = (*Driver)(nil)
	_ drivers.Lister         = (*Driver)(nil)
	_ drivers.NetworkCreator = (*Driver)(nil)
)

// New returns an instance of the driver without tasks.
func New(cfg Config) *Driver {
	for _, p := range []struct {
		of       *time.Duration
		fallback time.Duration
	}{{&cfg.Pace.Fingerprint, 30 * time.Second}, {&cfg.Pace.Retry, 500 * time.Millisecond}, {&cfg.Pace.Progress, 2 * time.Minute},
		{&cfg.Pace.Activity, 10 * time.Second}} {
		if *p.of <= 0 {
			*p.of = p.fallback
		}
	}
	return &Driver{cfg: cfg, log: cfg.Log.With("driver", cfg.Name), points: points{path: cfg.Dir}, tasks: map[string]*task{}}
}

// Name implements drivers.Driver.
func (d *Driver) Name() string { return d.cfg.Name }

// ConfigSpec implements drivers.Driver.
func (d *Driver) ConfigSpec() hcldec.Spec { return config.PluginSpec }

// TaskSpec implements drivers.Driver.
func (d *Driver) TaskSpec() hcldec.Spec { return config.TaskSpec }

// Capabilities implements drivers.Driver.
func (d *Driver) Capabilities() drivers.Capabilities { return config.Capabilities(d.set.NoLogs) }

// Isolates implements drivers.Isolator.
func (d *Driver) Isolates(user string, config map[string]any) (drivers.Isolation, error) {
	return d.set.Isolates(user, config), nil
}

// Privilege implements drivers.Privileger.
func (d *Driver) Privilege() drivers.Privilege {
	return drivers.Privilege{Offered: d.set.Privileged, Legacy: d.set.Legacy, Needs: d.set.NeedsPrivilege}
}

// SetConfig implements drivers.Driver. It is not an error if the daemon does not answer.
func (d *Driver) SetConfig(cfg cty.Value) error {
	set, err := config.DecodePlugin(cfg)
	if err != nil {
		return err
	}
	opts := []client.Opt{client.FromEnv}
	if set.Endpoint != "" {
		opts = []client.Opt{client.WithHost(set.Endpoint)}
		if set.Cert != "" || set.Key != "" || set.CA != "" {
			opts = append(opts, client.WithTLSClientConfig(set.CA, set.Cert, set.Key))
		}
	}
	api, err := client.New(append(opts, client.WithUserAgent("open-nomad"))...)
	if err != nil {
		return fmt.Errorf("initialize docker client: %w", err)
	}
	if err := d.points.clean(); err != nil {
		d.log.Warn("remove the mount points of an earlier agent", "err", err)
	}
	d.set, d.api = set, api
	d.images = images.New(images.Config{API: api, Plugin: &d.set, Dir: d.cfg.Images, Log: d.log,
		Progress: d.cfg.Pace.Progress, Activity: d.cfg.Pace.Activity,
		Event: func(task, message string, details map[string]string) { d.event(task, driverEvent, message, details) }})
	return nil
}

// Limits of calls.
const (
	callTimeout    = 5 * time.Minute // the creation of a container may copy an image
	inspectTimeout = 10 * time.Second
)

// call limits a call to the daemon.
func call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// withTimeout limits a call that only reads.
func withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, inspectTimeout)
}

// task returns a task that was started or recovered.
func (d *Driver) task(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.tasks[id]
	if !ok {
		return nil, drivers.ErrTaskNotFound
	}
	return t, nil
}

// Report implements drivers.Reporter: pulls of images, and logs that cannot be written or read.
func (d *Driver) Report(ctx context.Context, tell func(*drivers.TaskEvent)) error {
	d.mu.Lock()
	d.tell = tell
	d.mu.Unlock()
	d.reportLogs(ctx, tell)
	d.mu.Lock()
	d.tell = nil
	d.mu.Unlock()
	return ctx.Err()
}

// driverEvent is the type of the other events.
const driverEvent = "Driver"

// event reports an event of a task.
func (d *Driver) event(task, kind, message string, details map[string]string) {
	d.mu.Lock()
	tell := d.tell
	d.mu.Unlock()
	if tell != nil {
		tell(&drivers.TaskEvent{TaskID: task, Type: kind, At: time.Now(), Message: message, Details: details})
	}
}

// errGone means that the daemon no longer has the container of a task.
var errGone = errors.New("the container no longer exists")
