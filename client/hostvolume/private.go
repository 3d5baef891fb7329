package hostvolume

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
)

// volumesMode is the mode of the directory of the volumes. Other users of the node cannot enter it: a container that
// runs as root can create setuid programs and devices in a volume, and change the mode of the volume itself. Drivers
// mount volumes, so that tasks do not use this path.
const volumesMode = 0o700

// uuidLength is the length of a volume's ID.
const uuidLength = len("00000000-0000-0000-0000-000000000000")

// keepPrivate takes the directory of the volumes from other users of the node. An access control list on it stays
// valid. A directory with other files may have other users: there, it only logs how to mend it.
func (m *Manager) keepPrivate() {
	if err := m.closeVolumes(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.warn.Do(func() {
			m.cfg.Log.Warn("other users of the node can reach the dynamic host volumes, in which containers can create setuid programs: "+
				"set host_volumes_dir to a directory of its own, or run chmod o= on it", "dir", m.cfg.VolumesDir, "err", err)
		})
	}
}

func (m *Manager) closeVolumes() error {
	real, err := filepath.EvalSymlinks(m.cfg.VolumesDir)
	if err != nil {
		return err
	}
	root, err := safefs.Open(real)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // read only
	info, err := root.Stat()
	if err != nil || info.Mode().Perm()&0o007 == 0 {
		return err
	}
	names, err := root.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if len(name) < uuidLength || !nomad.IsUUID(name[:uuidLength]) {
			return errors.New("it contains " + untrusted.Shorten(name, maxShown) + ", which is not a volume")
		}
	}
	return root.Chmod(info.Mode() &^ 0o007)
}
