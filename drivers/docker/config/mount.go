package config

import (
	"fmt"
	"slices"

	"github.com/moby/moby/api/types/mount"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Mount is a mount block of a task.
type Mount struct {
	Kind, Target, Source string
	ReadOnly             bool
	Propagation          string
	TmpfsSize            int64
	TmpfsMode            int64
	NoCopy               bool
	Labels               map[string]string
	Driver               string
	DriverOptions        map[string]string
	err                  error // of its types
}

func readMounts(f *drivers.Fields, name string) (out []Mount) {
	for _, e := range elements(f, name) {
		bind, tmpfs, volume := nested(e, "bind_options"), nested(e, "tmpfs_options"), nested(e, "volume_options")
		driver := nested(volume, "driver_config")
		m := Mount{Kind: e.String("type"), Target: e.String("target"), Source: e.String("source"), ReadOnly: e.Bool("readonly"),
			Propagation: bind.String("propagation"), TmpfsSize: tmpfs.Int("size"), TmpfsMode: tmpfs.Int("mode"), NoCopy: volume.Bool("no_copy"),
			Labels: texts(volume, "labels"), Driver: driver.String("name"), DriverOptions: texts(driver, "options")}
		if m.Kind == "" {
			m.Kind = "volume"
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
func (o *Task) checkMounts() error {
	for _, v := range o.Volumes {
		if _, err := SplitVolume(v); err != nil {
			return err
		}
	}
	for _, m := range o.Mounts {
		switch {
		case !slices.Contains([]string{"bind", "volume", "tmpfs"}, m.Kind):
			return fmt.Errorf("invalid mount type, must be \"bind\", \"volume\", \"tmpfs\": %q", m.Kind)
		case m.Kind == "tmpfs" && m.Source != "":
			return fmt.Errorf("invalid source, must be \"\" for tmpfs")
		case m.Target == "":
			return fmt.Errorf("a mount of type %q has no target", m.Kind)
		case m.Kind == "bind" && m.Source == "":
			return fmt.Errorf("the mount of %s has no source", m.Target)
		case m.Propagation != "" && !slices.Contains(mount.Propagations, mount.Propagation(m.Propagation)):
			return fmt.Errorf("the mount of %s has an unknown propagation %q", m.Target, m.Propagation)
		case m.TmpfsSize < 0 || m.TmpfsMode < 0 || m.TmpfsMode > 0o7777:
			return fmt.Errorf("the mount of %s has a size or a mode out of range", m.Target)
		}
	}
	return nil
}
