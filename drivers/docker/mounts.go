package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/drivers/docker/files"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// mounting collects the mounts of a task. They are held until the container has started.
type mounting struct {
	s          *config.Plugin
	cfg        *drivers.TaskConfig
	privileged bool // the container
	binds      []string
	mounts     []mount.Mount
	readOnly   []string // targets that must be read-only, for the check after the start
	reserved   *reservation
}

// mountsOf returns the mounts of a task. The caller closes what is held, after the container has
// started.
func (d *Driver) mountsOf(cfg *drivers.TaskConfig, o *config.Task) (*mounting, error) {
	m := &mounting{s: &d.set, cfg: cfg, privileged: o.Privileged, reserved: &reservation{points: &d.points}}
	for _, add := range []func() error{m.taskDirs, func() error { return m.given(o) }, m.volumes, func() error { return m.files(o) }} {
		if err := add(); err != nil {
			return nil, errors.Join(err, m.reserved.Close())
		}
	}
	return m, nil
}

// bind is a bind mount of an open file.
type bind struct {
	target      string
	readOnly    bool
	trusted     bool // setuid programs and device files work
	create      bool // a directory of the node that does not exist
	propagation mount.Propagation
	label       string // of SELinux: "z", "Z" or ""
}

// bind adds a bind mount of a file, and closes the file.
func (m *mounting) bind(f *os.File, b bind) error {
	source, err := m.reserved.source(f, &b)
	if err != nil {
		return fmt.Errorf("mount %s: %w", b.target, err)
	}
	return m.add(source, b)
}

// add adds a bind mount of a path that tasks cannot replace. Only the textual form of a mount can have
// an SELinux label.
func (m *mounting) add(source string, b bind) error {
	if b.readOnly {
		m.readOnly = append(m.readOnly, b.target)
	}
	readOnly := b.readOnly && !m.reserved.enforces(&b)
	if b.label == "" {
		m.mounts = append(m.mounts, mount.Mount{Type: mount.TypeBind, Source: source, Target: b.target, ReadOnly: readOnly,
			BindOptions: &mount.BindOptions{Propagation: b.propagation}})
		return nil
	}
	if strings.Contains(source+b.target, ":") {
		return fmt.Errorf("mount %s: a path with a colon can't have an SELinux label: %s", b.target, source)
	}
	modes := []string{b.label}
	if b.propagation != "" {
		modes = append(modes, string(b.propagation))
	}
	if readOnly {
		modes = append(modes, "ro")
	}
	m.binds = append(m.binds, source+":"+b.target+":"+strings.Join(modes, ","))
	return nil
}

// taskDirs adds the directories of the task. The log directory is read-only: the supervisor writes there.
func (m *mounting) taskDirs() error {
	logs := m.cfg.LogDir
	if logs == "" {
		logs = filepath.Join(m.cfg.SharedDir, "logs") // with the logs of other tasks
	}
	for _, d := range []struct {
		path string
		bind bind
	}{
		{m.cfg.SharedDir, bind{target: "/alloc"}},
		{m.cfg.LocalDir, bind{target: "/local"}},
		{m.cfg.SecretsDir, bind{target: "/secrets"}},
		{logs, bind{target: "/alloc/logs", readOnly: true}},
	} {
		d.bind.label = m.s.SELinux
		name, err := filepath.Rel(m.cfg.AllocDir, d.path)
		if err != nil {
			return fmt.Errorf("mount %s: %w", d.bind.target, err)
		}
		if err := m.file(name, d.bind); err != nil {
			return err
		}
	}
	return nil
}

// file adds a file of the agent in the allocation's directory. No link is followed.
func (m *mounting) file(name string, b bind) error {
	f, err := files.Own(m.cfg.AllocDir, name)
	if err != nil {
		return fmt.Errorf("mount %s: %w", b.target, err)
	}
	return m.bind(f, b)
}

// given adds the volumes and mounts of the job.
func (m *mounting) given(o *config.Task) error {
	for _, entry := range o.Volumes {
		v, err := config.SplitVolume(entry)
		if err != nil {
			return err
		}
		if o.VolumeDriver != "" && !m.s.Volumes {
			return fmt.Errorf("volumes are not enabled; cannot use volume driver %q", o.VolumeDriver)
		}
		if err := m.entry(entry, v, o.VolumeDriver != ""); err != nil {
			return err
		}
	}
	for _, b := range o.Mounts {
		if err := m.block(b); err != nil {
			return err
		}
	}
	return nil
}

// volumeName matches the names of the daemon's volumes. Other sources are paths.
var volumeName = pattern.Lazy(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// entry adds an entry of volumes. With a volume driver, the source can be a volume of the daemon.
func (m *mounting) entry(entry string, v config.Volume, named bool) error {
	b := bind{target: m.target(v.Target), create: true, readOnly: v.ReadOnly, propagation: v.Propagation, label: v.Label}
	if b.label == "" {
		b.label = m.s.SELinux
	}
	if named && volumeName().MatchString(v.Source) {
		modes := slices.DeleteFunc([]string{v.Modes, m.s.SELinux}, func(mode string) bool { return mode == "" })
		m.binds = append(m.binds, strings.TrimSuffix(v.Source+":"+b.target+":"+strings.Join(modes, ","), ":"))
		return nil
	}
	if v.NoCopy {
		return fmt.Errorf("the volume %q has the mode nocopy, which is for volumes of the daemon", entry)
	}
	return m.hostPath(v.Source, fmt.Sprintf("volumes are not enabled; cannot mount host path: %q", entry), b)
}

// target returns the absolute path of a mount in the container.
func (m *mounting) target(path string) string { return filepath.Join("/", path) }

// block adds the mount of a block.
func (m *mounting) block(b config.Mount) error {
	if b.Kind == "bind" {
		return m.hostPath(b.Source, fmt.Sprintf("volumes are not enabled; cannot mount host path: %q", m.expand(b.Source)),
			bind{target: m.target(b.Target), readOnly: b.ReadOnly, propagation: mount.Propagation(b.Propagation)})
	}
	out := mount.Mount{Type: mount.Type(b.Kind), Source: b.Source, Target: m.target(b.Target), ReadOnly: b.ReadOnly}
	if b.Kind == "tmpfs" {
		out.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: b.TmpfsSize, Mode: files.Mode(b.TmpfsMode)}
	} else {
		if !m.s.Volumes {
			return fmt.Errorf("volumes are not enabled; cannot mount volume: %q", b.Source)
		}
		out.VolumeOptions = &mount.VolumeOptions{NoCopy: b.NoCopy, Labels: b.Labels}
		if b.Driver != "" {
			out.VolumeOptions.DriverConfig = &mount.Driver{Name: b.Driver, Options: b.DriverOptions}
		}
	}
	m.mounts = append(m.mounts, out)
	return nil
}

// expand returns the absolute path of a source, which is relative to the task's directory.
func (m *mounting) expand(source string) string {
	if filepath.IsAbs(source) {
		return filepath.Clean(source)
	}
	return filepath.Join(m.cfg.TaskDir, source)
}

// hostPath adds a bind mount of a path. Without volumes.enabled, it must be below a directory in which
// the task can write. Links are followed, but not out of that directory. refusal is the error for other
// paths.
func (m *mounting) hostPath(source, refusal string, b bind) error {
	path := m.expand(source)
	f, err := m.openMountable(path)
	switch {
	case err == nil:
		return m.bind(f, b)
	case files.Leaves(err) && m.s.Volumes:
		if err := m.nodePath(path, b); err != nil {
			return fmt.Errorf("mount %q: %w", source, err)
		}
		return nil
	case errors.Is(err, errNotMountable):
		return fmt.Errorf("%s: %s", refusal, m.remedy(path))
	case files.Leaves(err):
		return fmt.Errorf("%s: a link leads out of the allocation's directory, or out of the directory below which it is", refusal)
	}
	return fmt.Errorf("mount %q: %w", source, err)
}

// nodePath adds a bind mount of a path of the node, which volumes.enabled allows. A privileged container
// could change the attributes of its mounts anyway, and needs the devices.
func (m *mounting) nodePath(path string, b bind) error {
	if !asRoot() {
		return m.add(path, b)
	}
	if b.create {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
		}
	}
	f, err := os.OpenFile(path, files.PathOnly, 0)
	if err != nil {
		return err
	}
	b.trusted = m.privileged
	return m.bind(f, b)
}

// errNotMountable means that a task cannot mount a path without volumes.enabled.
var errNotMountable = fmt.Errorf("%s: %w", mountable, unix.EXDEV)

const mountable = "a task can mount paths below its own local, secrets and tmp, and below ../alloc/data and ../alloc/tmp"

// remedy returns how to mount a path that a task cannot mount. In Nomad, a file can be directly in the task's directory.
func (m *mounting) remedy(path string) string {
	name, err := filepath.Rel(m.cfg.TaskDir, path)
	if err != nil || !filepath.IsLocal(name) || name == "." {
		return mountable
	}
	return fmt.Sprintf("%s: write the file to %q, with the destination of its template or artifact block, and mount that", mountable,
		filepath.Join("local", name))
}

// openMountable opens a path below the directories that a task can mount, and creates it if it does not
// exist.
func (m *mounting) openMountable(path string) (*os.File, error) {
	for _, top := range []string{m.cfg.LocalDir, m.cfg.SecretsDir, filepath.Join(m.cfg.TaskDir, "tmp"),
		filepath.Join(m.cfg.SharedDir, "data"), filepath.Join(m.cfg.SharedDir, "tmp")} {
		if name, err := filepath.Rel(top, path); err == nil && filepath.IsLocal(name) {
			return files.Below(m.cfg.AllocDir, top, name)
		}
	}
	return nil, errNotMountable
}

// propagations are Docker's names.
var propagations = map[string]mount.Propagation{
	"": mount.PropagationRPrivate, drivers.PropagateToTask: mount.PropagationRSlave, drivers.PropagateBoth: mount.PropagationRShared,
}

// volumes adds the volumes of the client, with the file systems that are mounted below. Only a privileged container can use
// the devices of the node.
func (m *mounting) volumes() error {
	for _, v := range m.cfg.Mounts {
		if v.Devices && !m.privileged {
			continue
		}
		propagation, ok := propagations[v.Propagation]
		if !ok {
			return fmt.Errorf("mount volume %s: unknown propagation %q", v.HostPath, v.Propagation)
		}
		f, err := files.NoLinks(v.HostPath)
		if err == nil {
			err = m.bind(f, bind{target: v.TaskPath, readOnly: v.ReadOnly, trusted: v.Devices, propagation: propagation, label: v.SELinuxLabel})
		}
		if err != nil {
			return fmt.Errorf("mount volume %s: %w", v.HostPath, err)
		}
	}
	return nil
}

// files adds what the client replaces of the node's files. A task that has left the network of its group has the hosts
// file of the daemon.
func (m *mounting) files(o *config.Task) error {
	for _, file := range m.cfg.Files {
		name := file.Name
		if file.Target == hostsFile {
			if m.cfg.NetNS != "" && !ofGroup(m.cfg, o) {
				continue
			}
			var err error
			if name, err = extended(m.cfg, name, o.ExtraHosts); err != nil {
				return fmt.Errorf("write the hosts file of the task: %w", err)
			}
		}
		if err := m.file(name, bind{target: file.Target, readOnly: true}); err != nil {
			return err
		}
	}
	return nil
}
