package docker

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/mount"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// mountBlock is a mount block of a task.
type mountBlock struct {
	kind, target, source string
	readOnly             bool
	propagation          string
	tmpfsSize            int64
	tmpfsMode            int64
	noCopy               bool
	labels               map[string]string
	driver               string
	driverOptions        map[string]string
	err                  error // of its types
}

func readMounts(f *drivers.Fields, name string) (out []mountBlock) {
	for _, e := range elements(f, name) {
		bind, tmpfs, volume := nested(e, "bind_options"), nested(e, "tmpfs_options"), nested(e, "volume_options")
		driver := nested(volume, "driver_config")
		m := mountBlock{kind: e.String("type"), target: e.String("target"), source: e.String("source"), readOnly: e.Bool("readonly"),
			propagation: bind.String("propagation"), tmpfsSize: tmpfs.Int("size"), tmpfsMode: tmpfs.Int("mode"), noCopy: volume.Bool("no_copy"),
			labels: texts(volume, "labels"), driver: driver.String("name"), driverOptions: texts(driver, "options")}
		if m.kind == "" {
			m.kind = "volume"
		}
		for _, r := range []*drivers.Fields{e, bind, tmpfs, volume, driver} {
			if m.err == nil {
				m.err = r.Err()
			}
		}
		out = append(out, m)
	}
	return out
}

// checkMounts checks what needs no node.
func (o *options) checkMounts() error {
	for _, v := range o.volumes {
		if _, err := splitVolume(v); err != nil {
			return err
		}
	}
	for _, m := range o.mounts {
		switch {
		case !slices.Contains([]string{"bind", "volume", "tmpfs"}, m.kind):
			return fmt.Errorf("invalid mount type, must be \"bind\", \"volume\", \"tmpfs\": %q", m.kind)
		case m.kind == "tmpfs" && m.source != "":
			return fmt.Errorf("invalid source, must be \"\" for tmpfs")
		case m.target == "":
			return fmt.Errorf("a mount of type %q has no target", m.kind)
		case m.kind == "bind" && m.source == "":
			return fmt.Errorf("the mount of %s has no source", m.target)
		case m.propagation != "" && !slices.Contains(mount.Propagations, mount.Propagation(m.propagation)):
			return fmt.Errorf("the mount of %s has an unknown propagation %q", m.target, m.propagation)
		case m.tmpfsSize < 0 || m.tmpfsMode < 0 || m.tmpfsMode > 0o7777:
			return fmt.Errorf("the mount of %s has a size or a mode out of range", m.target)
		}
	}
	return nil
}

// volume is an entry of volumes.
type volume struct{ source, target, mode string }

// splitVolume splits an entry of the form source:target[:mode].
func splitVolume(entry string) (volume, error) {
	parts := strings.Split(entry, ":")
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return volume{}, fmt.Errorf("invalid docker volume %q: not <src>:<destination> format", entry)
	}
	v := volume{source: parts[0], target: parts[1]}
	if len(parts) > 2 {
		v.mode = parts[2]
	}
	return v, nil
}

// mounting collects the mounts of a task. They are held until the container has started.
type mounting struct {
	s      *settings
	cfg    *drivers.TaskConfig
	binds  []string
	mounts []mount.Mount
	held   *held
}

// mountsOf returns the mounts of a task. The caller closes what is held, after the container has
// started.
func (d *Driver) mountsOf(cfg *drivers.TaskConfig, o *options) (*mounting, error) {
	m := &mounting{s: &d.set, cfg: cfg, held: &held{points: &d.points}}
	m.own()
	err := m.given(o)
	if err == nil {
		err = m.client()
	}
	if err != nil {
		return nil, errors.Join(err, m.held.Close())
	}
	return m, nil
}

// own adds the directories of the task. They are not below one that the task can write to.
func (m *mounting) own() {
	m.bind(m.cfg.SharedDir, "/alloc")
	m.bind(m.cfg.LocalDir, "/local")
	m.bind(m.cfg.SecretsDir, "/secrets")
	if m.cfg.LogDir != "" {
		m.bind(m.cfg.LogDir, "/alloc/logs", "ro")
	}
}

// bind adds a bind mount, with the SELinux label of the configuration.
func (m *mounting) bind(source, target string, modes ...string) {
	if m.s.selinux != "" {
		modes = append(modes, m.s.selinux)
	}
	modes = slices.DeleteFunc(modes, func(mode string) bool { return mode == "" })
	entry := source + ":" + target
	if len(modes) > 0 {
		entry += ":" + strings.Join(modes, ",")
	}
	m.binds = append(m.binds, entry)
}

// given adds the volumes and mounts of the job.
func (m *mounting) given(o *options) error {
	for _, entry := range o.volumes {
		v, err := splitVolume(entry)
		if err != nil {
			return err
		}
		source := v.source
		if o.volumeDriver == "" {
			if source, err = m.hostPath(v.source, fmt.Sprintf("volumes are not enabled; cannot mount host path: %q", entry)); err != nil {
				return err
			}
		} else if !m.s.volumes {
			return fmt.Errorf("volumes are not enabled; cannot use volume driver %q", o.volumeDriver)
		}
		m.bind(source, m.target(v.target), v.mode)
	}
	for _, b := range o.mounts {
		add, err := m.block(b)
		if err != nil {
			return err
		}
		m.mounts = append(m.mounts, add)
	}
	return nil
}

// target returns the absolute path of a mount in the container.
func (m *mounting) target(path string) string { return filepath.Join("/", path) }

// block returns the mount of a block.
func (m *mounting) block(b mountBlock) (mount.Mount, error) {
	out := mount.Mount{Type: mount.Type(b.kind), Source: b.source, Target: m.target(b.target), ReadOnly: b.readOnly}
	switch b.kind {
	case "bind":
		source, err := m.hostPath(b.source, fmt.Sprintf("volumes are not enabled; cannot mount host path: %q", m.expand(b.source)))
		if err != nil {
			return out, err
		}
		out.Source, out.BindOptions = source, &mount.BindOptions{Propagation: mount.Propagation(b.propagation)}
	case "volume":
		if !m.s.volumes {
			return out, fmt.Errorf("volumes are not enabled; cannot mount volume: %q", b.source)
		}
		out.VolumeOptions = &mount.VolumeOptions{NoCopy: b.noCopy, Labels: b.labels}
		if b.driver != "" {
			out.VolumeOptions.DriverConfig = &mount.Driver{Name: b.driver, Options: b.driverOptions}
		}
	case "tmpfs":
		out.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: b.tmpfsSize, Mode: fileMode(b.tmpfsMode)}
	}
	return out, nil
}

// expand returns the absolute path of a source, which is relative to the task's directory.
func (m *mounting) expand(source string) string {
	if filepath.IsAbs(source) {
		return filepath.Clean(source)
	}
	return filepath.Join(m.cfg.TaskDir, source)
}

// hostPath returns the source of a bind mount. A path in the allocation's directory is opened without
// links that leave it, and held, since tasks can replace what is there. Other paths need volumes to be
// enabled. refusal is the error if they are not.
func (m *mounting) hostPath(source, refusal string) (string, error) {
	path := m.expand(source)
	inside, err := filepath.Rel(m.cfg.AllocDir, path)
	if err != nil || !filepath.IsLocal(inside) {
		if m.s.volumes {
			return path, nil
		}
		return "", fmt.Errorf("%s", refusal)
	}
	f, err := openInside(m.cfg.AllocDir, inside)
	switch {
	case leaves(err) && m.s.volumes:
		return path, nil
	case leaves(err):
		return "", fmt.Errorf("%s: a link leads out of the allocation's directory", refusal)
	case err != nil:
		return "", fmt.Errorf("mount %q: %w", source, err)
	}
	return m.held.source(f)
}

// propagations are Docker's names.
var propagations = map[string]mount.Propagation{
	"": mount.PropagationRPrivate, drivers.PropagateToTask: mount.PropagationRSlave, drivers.PropagateBoth: mount.PropagationRShared,
}

// volume adds a volume. Only the textual form of a mount can have an SELinux label.
func (m *mounting) volume(v drivers.Mount) error {
	propagation, ok := propagations[v.Propagation]
	if !ok {
		return fmt.Errorf("mount volume %s: unknown propagation %q", v.HostPath, v.Propagation)
	}
	if v.SELinuxLabel == "" {
		m.mounts = append(m.mounts, mount.Mount{Type: mount.TypeBind, Source: v.HostPath, Target: v.TaskPath, ReadOnly: v.ReadOnly,
			BindOptions: &mount.BindOptions{Propagation: propagation}})
		return nil
	}
	if strings.Contains(v.HostPath+v.TaskPath, ":") {
		return fmt.Errorf("mount volume %s at %s: a path with a colon can't have selinux_label", v.HostPath, v.TaskPath)
	}
	modes := []string{string(propagation), v.SELinuxLabel}
	if v.ReadOnly {
		modes = append(modes, "ro")
	}
	m.binds = append(m.binds, v.HostPath+":"+v.TaskPath+":"+strings.Join(modes, ","))
	return nil
}

// client adds the volumes and files of the client. Volumes are given by their path, with the file systems
// that are mounted below it.
func (m *mounting) client() error {
	for _, v := range m.cfg.Mounts {
		f, err := openNoLinks(v.HostPath)
		if err != nil {
			return fmt.Errorf("mount volume %s: %w", v.HostPath, err)
		}
		f.Close() //nolint:errcheck // opened with O_PATH
		if err := m.volume(v); err != nil {
			return err
		}
	}
	for _, file := range m.cfg.Files {
		m.mounts = append(m.mounts, mount.Mount{Type: mount.TypeBind, Source: filepath.Join(m.cfg.AllocDir, file.Name), Target: file.Target, ReadOnly: true})
	}
	return nil
}
