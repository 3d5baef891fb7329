package taskhook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// volumeHook finds the host volumes of a task, and the CSI volumes that the allocation has mounted. It passes them to the
// driver. A volume is writable if the node, the group and the mount all allow it.
type volumeHook struct {
	csi   CSIVolumes
	node  *nomad.Node
	now   func() map[string]*nomad.ClientHostVolumeConfig // the volumes of the node now; nil means those of node
	alloc *allocdir.Dir
	caps  drivers.Capabilities
}

func newVolumeHook(c Config) hook.Hook {
	return &volumeHook{csi: c.CSIVolumes, node: c.Node, now: c.Volumes, alloc: c.Dir, caps: c.Capabilities}
}

func (*volumeHook) Name() string { return "volumes" }

func (h *volumeHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if len(req.Task.VolumeMounts) == 0 || req.Running {
		return nil
	}
	if !h.caps.Mounts {
		return &Fault{Type: nomad.TaskFailedValidation, Err: h.noMounts(req)}
	}
	taken := map[string]bool{}
	for _, m := range req.Task.VolumeMounts {
		name := req.Env.Expand(m.Volume)
		have, err := h.find(name, m, req)
		if err == nil {
			err = h.mount(ctx, have, m, req)
		}
		if err == nil && taken[have.target] {
			err = fmt.Errorf("destination %s is already used by another volume", have.target)
		}
		if err == nil {
			err = have.give(ctx, m, req)
		}
		if err != nil {
			return setupFault(fmt.Errorf("mount volume %q: %w", name, err))
		}
		taken[have.target] = true
		have.add(m, resp)
	}
	return nil
}

// noMounts returns the error of a driver that cannot mount a volume of the task.
func (h *volumeHook) noMounts(req *TaskPrestartRequest) error {
	for _, m := range req.Task.VolumeMounts {
		if v := requested(req, req.Env.Expand(m.Volume)); v != nil && v.Type == nomad.VolumeTypeCSI {
			return fmt.Errorf("task driver %q for %q does not support CSI: it can't mount volumes, use another driver", req.Task.Driver, req.Task.Name)
		}
	}
	return fmt.Errorf("driver %q can't mount volumes: remove volume_mount, or use another driver", req.Task.Driver)
}

// mount sets the destination of a volume, and creates it if it must exist.
func (h *volumeHook) mount(ctx context.Context, have *found, m *nomad.VolumeMount, req *TaskPrestartRequest) error {
	var info *unix.Stat_t
	err := safefs.Await(ctx, func() (err error) { // the server of its file system may not answer
		info, err = statNoLinks(have.host)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s of this node: %w", have.name, err)
	}
	have.target, err = h.target(m.Destination, req, info.Mode&unix.S_IFMT == unix.S_IFDIR)
	if have.device && errors.Is(err, fs.ErrNotExist) {
		return nil // in the task's directories, the driver creates the file for a device
	}
	return err
}

// add adds a volume to what the driver mounts.
func (f *found) add(m *nomad.VolumeMount, resp *TaskPrestartResponse) {
	if f.device {
		permissions := "rw"
		if f.readOnly {
			permissions = "r"
		}
		resp.Devices = append(resp.Devices, drivers.Device{TaskPath: f.target, HostPath: f.host, Permissions: permissions})
		return
	}
	resp.Mounts = append(resp.Mounts, drivers.Mount{TaskPath: f.target, HostPath: f.host, ReadOnly: f.readOnly, Propagation: f.propagation,
		SELinuxLabel: m.SELinuxLabel})
}

// found is a volume of the node with the access that the task has.
type found struct {
	name, host  string
	readOnly    bool
	propagation string // "" for private
	device      bool   // it is the node of a block device
	target      string // the destination in the task; mount sets it
}

func (h *volumeHook) find(name string, m *nomad.VolumeMount, req *TaskPrestartRequest) (*found, error) {
	v := requested(req, name)
	mode, err := h.propagation(m, req)
	switch {
	case v == nil:
		return nil, errors.New("the group has no volume of that name")
	case v.Type != nomad.VolumeTypeHost && v.Type != nomad.VolumeTypeCSI:
		return nil, fmt.Errorf("this client does not support volumes of type %q", v.Type)
	case err != nil:
		return nil, err
	case m.SELinuxLabel != "" && !h.caps.SELinux:
		return nil, fmt.Errorf("driver %q can't set selinux_label = %q: remove it, or use another driver", req.Task.Driver, m.SELinuxLabel)
	}
	have := &found{propagation: mode}
	if v.Type == nomad.VolumeTypeCSI {
		return have, h.findCSI(have, v, m, req)
	}
	source := v.SourceFor(req.Alloc.Name)
	host := h.volumes()[source]
	switch {
	case host == nil:
		return nil, fmt.Errorf("this node has no host volume %q", source)
	case m.Owner != "":
		return nil, fmt.Errorf("owner = %q is for CSI volumes only", m.Owner)
	}
	have.name, have.host, have.readOnly = fmt.Sprintf("host volume %q", source), host.Path, host.ReadOnly || v.Reads() || m.ReadOnly
	return have, nil
}

// requested returns the request of the group for a volume, or nil.
func requested(req *TaskPrestartRequest, name string) *nomad.VolumeRequest {
	if group := groupOf(req.Alloc); group != nil {
		return group.Volumes[name]
	}
	return nil
}

// propagation returns the propagation of a mount, "" for private.
func (h *volumeHook) propagation(m *nomad.VolumeMount, req *TaskPrestartRequest) (string, error) {
	mode := req.Env.Expand(m.PropagationMode)
	switch {
	case mode == "" || mode == nomad.VolumeMountPrivate:
		return "", nil
	case mode != nomad.VolumeMountHostToTask && mode != nomad.VolumeMountBidirectional:
		return "", fmt.Errorf("propagation_mode is %q: use private, host-to-task or bidirectional", mode)
	case !slices.Contains(h.caps.Propagations, mode):
		return "", fmt.Errorf("driver %q can't mount with propagation_mode = %q: use private, or another driver", req.Task.Driver, mode)
	}
	return mode, nil
}

// volumes returns the volumes of the node. Dynamic ones may have been added after the allocation was placed.
func (h *volumeHook) volumes() map[string]*nomad.ClientHostVolumeConfig {
	if h.now == nil {
		return h.node.HostVolumes
	}
	return h.now()
}

// statNoLinks returns the status of a path that had no symbolic links when the agent started.
// Links found now may have been created by a task.
func statNoLinks(name string) (*unix.Stat_t, error) {
	fd, err := safefs.OpenNoLinks(name, unix.O_PATH)
	if errors.Is(err, unix.ELOOP) {
		err = errors.New("a symbolic link was added to the path after the agent started")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return &st, nil
}

// target returns the destination of a volume in the task. In a root of the task's own, the driver creates it. Else a
// missing destination below the task's writable directories is created.
func (h *volumeHook) target(destination string, req *TaskPrestartRequest, directory bool) (string, error) {
	target := req.Env.Expand(destination)
	if strings.Contains(target, "${") {
		return "", fmt.Errorf("destination %q contains a reference that is not defined on this node", target)
	}
	if err := jobrules.CheckMountTarget(target); err != nil {
		return "", err
	}
	if h.caps.FSIsolation.OwnRoot() {
		return rootTarget(target)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(req.Dir.Path(), target)
	}
	target = filepath.Clean(target)
	alloc := h.alloc.Path()
	inAlloc, err := filepath.Rel(alloc, target)
	if err != nil {
		return "", err
	}
	if safefs.Within(alloc, target) || inAlloc == allocdir.SharedName || target == req.Dir.Path() {
		return "", fmt.Errorf("destination %s would hide the task's own directories: choose another", target)
	}
	if !safefs.Within(target, alloc) {
		return target, h.exists(target)
	}
	return target, h.create(inAlloc, req, directory)
}

// rootTarget returns the destination of a volume in the task's own root. A relative one is below the root.
func rootTarget(target string) (string, error) {
	target = filepath.Join("/", target)
	for _, dir := range imageDirs {
		if safefs.Within(dir, target) {
			return "", fmt.Errorf("destination %s would hide the task's own directories: choose another", target)
		}
	}
	if safefs.Within(target, imageLogs) {
		return "", fmt.Errorf("destination %s is in the log directory, which is read-only: choose another", target)
	}
	return target, nil
}

// The directories of a task in its own root.
const imageLogs = "/" + allocdir.SharedName + "/" + allocdir.LogsName

var imageDirs = []string{"/" + allocdir.SharedName, "/" + allocdir.LocalName, "/" + allocdir.SecretsName, imageLogs}

// exists returns an error if the destination does not exist on the node.
func (h *volumeHook) exists(target string) error {
	if strings.HasPrefix(target, drivers.PrivateTmp+"/") {
		return nil
	}
	_, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("destination %s does not exist on this node and is outside the task's directory: create "+
			"it, or choose one below ${NOMAD_TASK_DIR}", target)
	}
	return err
}

// create creates a destination below the task's directory or the shared one. It follows no
// symbolic links.
func (h *volumeHook) create(rel string, req *TaskPrestartRequest, directory bool) error {
	first, rest, _ := strings.Cut(rel, "/")
	inTask := first == req.Dir.Name() && rest != allocdir.PrivateName && !strings.HasPrefix(rest, allocdir.PrivateName+"/")
	if !inTask && first != allocdir.SharedName {
		return fmt.Errorf("destination %s is within the allocation, but neither in the task's directory nor in the shared one",
			filepath.Join(h.alloc.Path(), rel))
	}
	root, err := safefs.Open(h.alloc.Path())
	if err != nil {
		return err
	}
	defer root.Close()
	if !directory {
		f, err := root.Open(rel)
		if err != nil {
			return fmt.Errorf("destination of a file volume: %w", err)
		}
		return f.Close()
	}
	made, err := root.MakeAll(rel, 0o755, req.Owner.UID, req.Owner.GID)
	if err != nil {
		return fmt.Errorf("create destination: %w", err)
	}
	return made.Close()
}
