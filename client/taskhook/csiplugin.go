package taskhook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
	words "github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// CSI is what the CSI plugins of a node share.
type CSI struct {
	Dir     string // <state dir>/csi
	Plugins CSIPlugins
	// Share makes the mounts below Dir appear in the tasks of plugins, and theirs on the node. It may be called again.
	Share func(dir string) error
	// Quiet waits until no volume of a plugin is being unmounted.
	Quiet func(ctx context.Context, plugin string) error
}

// CSIPlugins are the instances of CSI plugins on the node (instances.Set).
type CSIPlugins interface {
	Register(i instances.Instance) error
	Deregister(kind instances.Kind, id, alloc string) error
	// Has reports whether the instance is registered.
	Has(kind instances.Kind, id, alloc string) bool
}

// csiSocket is the name of the socket that a plugin creates in its directory.
const csiSocket = "csi.sock"

// CSISockets is the name of the directory below CSI.Dir with the directories of the sockets.
const CSISockets = "plugins"

// csiDirMode is the mode of all directories below CSI.Dir.
const csiDirMode = 0o700

// csiPluginHook supervises a task that is a CSI plugin:
//
//	Prestart ─▶ directories, mounts, CSI_ENDPOINT
//	Poststart ─▶ waiting ──ready──▶ registered ──probe every 30 s──▶ events
//	                └──health_timeout──▶ restart, as after a failure
//	PreKill ─▶ waits until no volume is being unmounted
//	Exited, Stop ─▶ deregistered
//
// After a restart of the agent, a plugin that is registered stays so: it is only probed. The paths are those of Nomad 2.0.
// The directory of the socket belongs to the user of the task. The agent opens it only below descriptors, since the plugin can put
// anything there.
type csiPluginHook struct {
	deps   *CSI
	alloc  *nomad.Allocation
	config *nomad.TaskCSIPluginConfig // of the task; nil: the task is not a plugin
	driver string
	caps   drivers.Capabilities
	// privileged reports whether the task may do on the node what root may.
	privileged bool
	volumes    *volumeHook // resolves the destinations of mounts
	control    Control
	dial       func(ctx context.Context, s csi.Socket) (pluginProbe, error)
	log        *slog.Logger

	taskRoot string // the directory of the volumes as the plugin sees it; set by Prestart
}

func newCSIPluginHook(c Config) hook.Hook {
	return &csiPluginHook{deps: c.CSI, alloc: c.Alloc, config: c.Task.CSIPluginConfig, driver: c.Task.Driver, caps: c.Capabilities,
		privileged: c.Task.Privileged || c.Capabilities.FSIsolation == drivers.FSIsolationNone,
		volumes:    &volumeHook{alloc: c.Dir, caps: c.Capabilities}, control: c.Control, dial: dialProbe, log: c.Log}
}

func (*csiPluginHook) Name() string { return "csi_plugin_supervisor" }

func (h *csiPluginHook) Prestart(_ context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if h.config == nil {
		return nil
	}
	if err := h.possible(); err != nil {
		return &Fault{Type: nomad.TaskFailedValidation, Err: fmt.Errorf("csi_plugin: %w", err)}
	}
	if err := h.prepare(req, resp); err != nil {
		return setupFault(fmt.Errorf("prepare CSI plugin %q: %w", h.config.ID, err))
	}
	return nil
}

// possible returns an error if the task can never be a plugin here. The servers check the same, except for drivers that are not
// built-in.
func (h *csiPluginHook) possible() error {
	if h.deps == nil {
		return errors.New("this node does not run CSI plugins")
	}
	if err := jobrules.CheckCSIPlugin(h.config); err != nil {
		return err
	}
	mounts := words.MountsVolumes(h.config)
	if mounts && !kinds.HostsNodePlugin(h.caps) || !mounts && !kinds.HostsController(h.caps) {
		return fmt.Errorf("driver %q cannot host CSI plugins of type %s: use docker or raw_exec", h.driver, h.config.Type)
	}
	return nil
}

// onHost reports whether the plugin uses the paths of the node.
func (h *csiPluginHook) onHost() bool { return h.caps.FSIsolation == drivers.FSIsolationNone }

// socketDir returns the directory of the socket on the node.
func (h *csiPluginHook) socketDir() string { return filepath.Join(h.deps.Dir, CSISockets, h.alloc.ID) }

// root returns the directory of the plugin's volumes on the node.
func (h *csiPluginHook) root() string {
	return filepath.Join(h.deps.Dir, string(h.config.Type), h.config.ID)
}

// prepare creates the directories, unless the plugin runs, and sets mounts and environment.
func (h *csiPluginHook) prepare(req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	mount, base := h.config.Dirs()
	socketDir := h.socketDir()
	h.taskRoot = h.root()
	if !h.onHost() {
		var err error
		if socketDir, err = h.volumes.target(mount, req, true); err != nil {
			return fmt.Errorf("mount_dir of csi_plugin: %w%s", err, h.elsewhere())
		}
		h.taskRoot = path.Join("/", base)
	}
	socket := path.Join(socketDir, csiSocket)
	if len(socket) > maxSocketPath {
		return fmt.Errorf("the path of the socket, %s, has %d bytes: the limit is %d", socket, len(socket), maxSocketPath)
	}
	resp.Env, resp.Below = map[string]string{"CSI_ENDPOINT": "unix://" + socket}, true
	if req.Running {
		return nil
	}
	if err := h.makeDirs(req.Owner); err != nil || h.onHost() {
		return err
	}
	resp.Mounts = []drivers.Mount{{TaskPath: socketDir, HostPath: h.socketDir()}}
	if !h.caps.FSIsolation.OwnRoot() {
		return nil // a controller; it needs nothing else
	}
	volumes, err := h.volumes.target(base, req, true)
	if err != nil {
		return fmt.Errorf("stage_publish_base_dir of csi_plugin: %w", err)
	}
	m := drivers.Mount{TaskPath: volumes, HostPath: h.root()}
	if words.MountsVolumes(h.config) {
		m.Propagation = drivers.PropagateBoth
	}
	resp.Mounts = append(resp.Mounts, m)
	if words.MountsVolumes(h.config) && h.caps.FSIsolation == drivers.FSIsolationImage {
		resp.Mounts = append(resp.Mounts, drivers.Mount{TaskPath: "/dev", HostPath: "/dev", Devices: true})
	}
	return nil
}

// elsewhere says where a task without a root of its own can have the directory of its socket, for errors.
func (h *csiPluginHook) elsewhere() string {
	if h.caps.FSIsolation.OwnRoot() {
		return ""
	}
	return fmt.Sprintf(": with driver %q, use mount_dir = %q", h.driver, path.Join(drivers.PrivateTmp, "csi"))
}

// makeDirs creates the directories of the plugin on the node. It removes the socket of an earlier start, to which nobody listens.
func (h *csiPluginHook) makeDirs(owner Owner) error {
	if words.MountsVolumes(h.config) {
		if err := h.deps.Share(h.deps.Dir); err != nil {
			return err
		}
	}
	top, err := safefs.Open(filepath.Dir(h.deps.Dir))
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // a directory
	name := filepath.Base(h.deps.Dir)
	for _, dir := range []string{CSISockets, string(h.config.Type)} {
		made, err := top.MakeAll(filepath.Join(name, dir), csiDirMode, -1, -1)
		if err != nil {
			return err
		}
		made.Close() //nolint:errcheck // a directory
	}
	volumes, err := top.MakeAll(filepath.Join(name, string(h.config.Type), h.config.ID), csiDirMode, -1, -1)
	if err != nil {
		return err
	}
	volumes.Close() //nolint:errcheck // a directory
	sockets, err := top.Sub(filepath.Join(name, CSISockets))
	if err != nil {
		return err
	}
	defer sockets.Close() //nolint:errcheck // a directory
	own, err := sockets.Make(h.alloc.ID, csiDirMode)
	if err != nil {
		return err
	}
	defer own.Close() //nolint:errcheck // a directory
	if err := own.Chown(owner.UID, owner.GID); err != nil {
		return err
	}
	return own.RemoveAll(csiSocket)
}

func (h *csiPluginHook) Poststart(_ context.Context, _ *TaskPoststartRequest, resp *TaskPoststartResponse) error {
	if h.config != nil && h.taskRoot != "" {
		resp.Background = h.supervise
	}
	return nil
}

// PreKill waits until the volumes of ended allocations are unmounted, since only the plugin can do that properly. It gives up
// after csiQuietLimit.
func (h *csiPluginHook) PreKill(ctx context.Context, req *TaskPreKillRequest, _ *TaskPreKillResponse) error {
	if h.deps == nil || !req.Final || !words.MountsVolumes(h.config) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, csiQuietLimit)
	defer cancel()
	if err := h.deps.Quiet(limited, h.config.ID); err != nil && ctx.Err() == nil {
		h.log.Warn("a CSI plugin ends while volumes are being unmounted", "plugin", h.config.ID, "err", err)
	}
	return nil
}

func (h *csiPluginHook) Exited(context.Context, *TaskExitedRequest, *TaskExitedResponse) error {
	if h.config == nil || h.deps == nil {
		return nil
	}
	return h.deregister()
}

// Stop also handles a task that ended while no agent ran.
func (h *csiPluginHook) Stop(context.Context, *TaskStopRequest, *TaskStopResponse) error {
	if h.config == nil || h.deps == nil {
		return nil
	}
	return errors.Join(h.deregister(), RemoveCSISocket(h.deps.Dir, h.alloc.ID))
}

// RemoveCSISocket removes the directory of the socket of an allocation, which is not a plugin any more.
func RemoveCSISocket(dir, alloc string) error {
	sockets, err := safefs.Open(filepath.Join(dir, CSISockets))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the directory of a CSI plugin's socket: %w", err)
	}
	defer sockets.Close() //nolint:errcheck // a directory
	if err := sockets.RemoveAll(alloc); err != nil {
		return fmt.Errorf("remove the directory of a CSI plugin's socket: %w", err)
	}
	return nil
}
