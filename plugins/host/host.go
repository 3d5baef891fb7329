// Package host runs the programs of external task drivers and of device plugins. It finds them in
// plugin_dir, starts them, and provides each as a drivers.Driver or a DevicePlugin.
//
//	(program) ──start──▶ handshake ──▶ SetConfig ──▶ recover tasks ──▶ serving
//	              ▲          └─────────────┴───────┬───────┴──────────────┘
//	              │                                ▼ an error, or the process ends
//	              └───────────────────── unhealthy, back-off
//
// A program is started twice. The first process reports its kind, its name and its schema, before the client exists,
// and ends. The second one gets its configuration, and runs until the agent shuts it down. Its tasks continue, and the
// next agent recovers them by their handles.
//
// If the second process ends earlier, it is started again, with a back-off, and recovers its tasks. In the meantime
// the driver, or the devices of the plugin, are unhealthy, and calls wait for the process until their time limit.
//
// A program runs as the agent's user in its own session. The kernel kills it when the agent ends
// (PR_SET_PDEATHSIG). It inherits no descriptors but 0 to 2, and of the environment only PATH and TMPDIR.
// It answers on a Unix socket. The process at the other end must have the agent's user. Each answer has a size limit.
// Short calls have a short time limit, and calls about the life of a task have a long one or none.
//
// A program that cannot be used is an unhealthy driver with the name of its file. Other drivers are not
// affected. Only errors of the configuration or of plugin_dir are errors of Open or SetConfig.
//
// The output of a task goes to FIFOs of the supervisor, which collects it (supervise.Client.Collect).
//
// Goroutines: two per process for its output, one that waits for its end, those of go-plugin, and one per
// call of Fingerprint, Report and TaskStats. The methods of a DevicePlugin run in the goroutines of their callers.
// Close ends the processes.
package host

import (
	"context"
	"errors"
	"fmt"
	"github.com/hashicorp/go-version"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

// Block is a plugin block of the configuration.
type Block struct {
	Args []string
	// Backend is the name of a driver or of a program, of which the block is another instance. The
	// default is the program with the label of the block.
	Backend string
	Config  map[string]any
}

// BlockError is an error in a plugin block. It stops the agent.
type BlockError struct {
	Label string
	Err   error
}

// Error returns the label and the error.
func (e *BlockError) Error() string { return fmt.Sprintf("plugin %q: %v", e.Label, e.Err) }

// Unwrap returns the error.
func (e *BlockError) Unwrap() error { return e.Err }

// Logs collects the output of tasks that the supervisor does not run (supervise.Client).
type Logs interface {
	Collect(ctx context.Context, id string, logs proc.Logs) (stdout, stderr string, err error)
	Kill(ctx context.Context, id string) (*proc.Exit, error)
	Forget(ctx context.Context, id string) error
	FaultyTasks(ctx context.Context) ([]proc.Task, error)
}

// Config configures a Host.
type Config struct {
	Dir    string           // plugin_dir; a directory that does not exist has no programs
	Blocks map[string]Block // by label; those of built-in drivers are ignored
	// Builtin lists the drivers of the agent itself, and other labels of their blocks. A program
	// cannot replace them.
	Builtin []string
	// Allows reports whether a driver of this name may be used; nil allows all.
	Allows  func(name string) bool
	Runtime string // directory for sockets, of this agent only
	// MinPort, MaxPort and Topology are passed to the programs.
	MinPort, MaxPort int
	Topology         *proto.ClientTopology
	Logs             Logs
	Log              *slog.Logger
	// Patience limits a handshake and each short call. Default 15 s.
	Patience time.Duration
	// Backoff is the first delay before a program is started again; it doubles up to 2 min. Default 1 s.
	Backoff time.Duration
}

// Host holds the external drivers and the device plugins of a client.
type Host struct {
	cfg     Config
	dir     *safefs.Dir // nil without a plugin_dir
	drivers []*Driver
	devices []*DevicePlugin
	broken  []*broken
}

// Open checks plugin_dir and asks each program that has a plugin block for its kind, name and schema. It
// returns errors of the configuration only. The caller closes the Host.
func Open(ctx context.Context, cfg Config) (*Host, error) {
	if cfg.Patience <= 0 {
		cfg.Patience = 15 * time.Second
	}
	if cfg.Backoff <= 0 {
		cfg.Backoff = time.Second
	}
	h := &Host{cfg: cfg}
	dir, err := openDir(cfg.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	if err != nil && len(cfg.Blocks) == 0 { // no program would be started
		cfg.Log.Warn("plugin_dir is not used", "err", err)
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	h.dir = dir
	if err := h.load(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// load creates the drivers.
func (h *Host) load(ctx context.Context) error {
	if err := h.prepareRuntime(); err != nil {
		return err
	}
	names, err := h.candidates()
	if err != nil {
		return err
	}
	programs := make([]*program, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		programs[i] = &program{host: h, file: name, args: h.cfg.Blocks[name].Args, log: h.cfg.Log.With("plugin", name)}
		asking.Go(func() { programs[i].err = programs[i].ask(ctx) })
	}
	asking.Wait()
	for _, p := range h.usable(programs) {
		if p.device {
			h.devices = append(h.devices, newDevicePlugin(p))
			continue
		}
		h.drivers = append(h.drivers, newDriver(p, p.name, p.file, p.args))
	}
	if err := h.instances(); err != nil {
		return err
	}
	h.drivers = slices.DeleteFunc(h.drivers, func(d *Driver) bool { return h.cfg.Allows != nil && !h.cfg.Allows(d.name) })
	return h.configure()
}

// configure starts the programs with their plugin blocks.
func (h *Host) configure() error {
	all := h.instancesOfPrograms()
	errs := make([]error, len(all))
	var starting sync.WaitGroup
	for n, i := range all {
		starting.Go(func() {
			block, err := drivers.Decode(h.cfg.Blocks[i.label].Config, i.ConfigSpec())
			if err == nil {
				err = i.SetConfig(block)
			}
			if err != nil {
				errs[n] = &BlockError{Label: i.label, Err: fmt.Errorf("config of %s %s: %w", i.program.noun(), i.name, err)}
			}
		})
	}
	starting.Wait()
	return errors.Join(errs...)
}

// instancesOfPrograms returns the instances of drivers and device plugins.
func (h *Host) instancesOfPrograms() (out []*instance) {
	for _, d := range h.drivers {
		out = append(out, &d.instance)
	}
	for _, d := range h.devices {
		out = append(out, &d.instance)
	}
	return out
}

// candidates returns the files of plugin_dir with a plugin block, or named by a backend.
func (h *Host) candidates() ([]string, error) {
	list, err := h.dir.Sub(".")
	if err != nil {
		return nil, fmt.Errorf("list plugin_dir: %w", err)
	}
	defer list.Close()
	names, err := list.Names()
	if err != nil {
		return nil, fmt.Errorf("list plugin_dir: %w", err)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		b, wanted := h.cfg.Blocks[name]
		wanted = wanted && b.Backend == ""
		for _, b := range h.cfg.Blocks {
			wanted = wanted || b.Backend == name
		}
		if slices.Contains(h.cfg.Builtin, name) {
			h.cfg.Log.Warn("the program is ignored: the driver is built in", "plugin", name)
			return true
		}
		if !wanted {
			h.cfg.Log.Warn("the file in plugin_dir is ignored: it has no plugin block", "plugin", name)
		}
		return !wanted
	}), nil
}

// usable returns one program for each driver and device plugin: the highest version. The others become
// broken drivers.
func (h *Host) usable(programs []*program) []*program {
	best := map[string]*program{}
	for _, p := range programs {
		key := p.noun() + " " + p.name
		switch other := best[key]; {
		case p.err != nil:
			p.log.Error("the program of a plugin cannot be used", "err", p.err)
			h.broken = append(h.broken, &broken{name: p.file, err: p.err})
		case !p.device && slices.Contains(h.cfg.Builtin, p.name):
			h.refuse(p, fmt.Errorf("driver %q is built in", p.name))
		case other != nil && !p.version.GreaterThan(other.version):
			h.refuse(p, fmt.Errorf("%s %q is provided by %s in version %s", p.noun(), p.name, other.file, other.version))
		default:
			if other != nil {
				h.refuse(other, fmt.Errorf("%s %q is provided by %s in version %s", p.noun(), p.name, p.file, p.version))
			}
			best[key] = p
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b *program) int { return a.version.Compare(b.version) })
}

func (h *Host) refuse(p *program, err error) {
	p.log.Warn("the program of a plugin is ignored", "err", err)
	h.broken = append(h.broken, &broken{name: p.file, err: err})
}

// instances adds the drivers of blocks with a backend that a program of plugin_dir provides.
func (h *Host) instances() error {
	for _, label := range slices.Sorted(maps.Keys(h.cfg.Blocks)) {
		b := h.cfg.Blocks[label]
		if b.Backend == "" || slices.Contains(h.cfg.Builtin, b.Backend) {
			continue
		}
		i := slices.IndexFunc(h.drivers, func(d *Driver) bool { return d.program.name == b.Backend || d.program.file == b.Backend })
		if i < 0 {
			return &BlockError{Label: label,
				Err: fmt.Errorf("unknown driver %q: no program in %s that can be used provides it", b.Backend, h.cfg.Dir)}
		}
		if slices.ContainsFunc(h.drivers, func(d *Driver) bool { return d.name == label }) {
			return &BlockError{Label: label, Err: errors.New("another program provides a driver of this name: choose another label")}
		}
		h.drivers = append(h.drivers, newDriver(h.drivers[i].program, label, label, b.Args))
	}
	return nil
}

// Drivers returns the external drivers, with those that cannot be used.
func (h *Host) Drivers() []drivers.Driver {
	var out []drivers.Driver
	for _, d := range h.drivers {
		out = append(out, d)
	}
	for _, b := range h.broken {
		if !slices.ContainsFunc(h.drivers, func(d *Driver) bool { return d.name == b.name || d.label == b.name }) {
			out = append(out, b)
		}
	}
	return out
}

// Devices returns the device plugins.
func (h *Host) Devices() []*DevicePlugin { return h.devices }

// Backends returns the names of the drivers that the programs provide, by the name of the instance.
func (h *Host) Backends() map[string]string {
	out := map[string]string{}
	for _, d := range h.drivers {
		out[d.name] = d.program.name
	}
	return out
}

// Close ends the programs and waits for their end. Their tasks continue.
func (h *Host) Close() error {
	var ending sync.WaitGroup
	for _, i := range h.instancesOfPrograms() {
		ending.Go(i.close)
	}
	ending.Wait()
	if h.dir == nil {
		return nil
	}
	return h.dir.Close()
}

// socketName is the longest name that go-plugin appends to the runtime directory, and socketPath the
// limit of the kernel for the path of a socket.
const (
	socketName = "/plugin-dir0123456789/plugin0123456789"
	socketPath = 107
)

// prepareRuntime creates the directory for sockets, and removes the files of an agent that was killed.
// If its path is too long for a socket, go-plugin uses directories of mode 0700 in TMPDIR.
func (h *Host) prepareRuntime() error {
	if len(h.cfg.Runtime)+len(socketName) > socketPath {
		h.cfg.Runtime = ""
	}
	if h.cfg.Runtime == "" {
		return nil
	}
	err := os.RemoveAll(h.cfg.Runtime)
	if err == nil {
		err = os.MkdirAll(h.cfg.Runtime, 0o700)
	}
	if err != nil {
		return fmt.Errorf("prepare the directory of the plugins' sockets: %w", err)
	}
	return nil
}

// openDir opens plugin_dir. Its programs run with the rights of the agent. So only root and the agent's
// user may be able to add one.
func openDir(name string) (*safefs.Dir, error) {
	if name == "" {
		return nil, os.ErrNotExist
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("plugin_dir: %w", err)
	}
	dir, err := safefs.Open(abs)
	if err != nil {
		return nil, fmt.Errorf("open plugin_dir: %w", err)
	}
	info, err := dir.Stat()
	if err == nil {
		err = trusted(info)
	}
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("plugin_dir %s: %w", abs, err)
	}
	return dir, nil
}

// parseVersion returns the version of a program.
func parseVersion(text string) (*version.Version, error) {
	v, err := untrusted.Version(text)
	if err != nil {
		return nil, fmt.Errorf("the program has no version: %w", err)
	}
	return v, nil
}
