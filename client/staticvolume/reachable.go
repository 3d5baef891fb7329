package staticvolume

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// WarnReachable logs each writable volume in which a container can create a setuid program that other users of the node
// can run. Only drivers with images run tasks as root.
func WarnReachable(volumes map[string]*nomad.ClientHostVolumeConfig, list []drivers.Driver, log *slog.Logger) {
	images := func(d drivers.Driver) bool { return d.Capabilities().FSIsolation == drivers.FSIsolationImage }
	if !slices.ContainsFunc(list, images) {
		return
	}
	for _, v := range volumes {
		if !v.ReadOnly && reachable(v.Path) {
			log.Warn("other users of the node can reach a writable host volume, "+
				"in which containers can create setuid programs and device files: "+
				"run chmod 0700 on its parent directory, or mount its file system with nosuid,nodev",
				"volume", v.Name, "path", v.Path)
		}
	}
}

// reachable reports whether every user can reach a directory whose file system has setuid programs or device files. Its own
// mode does not count: a container can change it.
func reachable(dir string) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Flags&unix.ST_NOSUID != 0 && fs.Flags&unix.ST_NODEV != 0 {
		return false
	}
	for dir != "/" {
		dir = filepath.Dir(dir)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
	}
	return true
}
