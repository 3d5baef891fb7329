package client

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/nomad"
)

// HostVolume is a directory of the node that jobs may mount.
type HostVolume struct {
	Path     string
	ReadOnly bool
}

// hostVolumes checks the paths of the configured volumes. Symbolic links are resolved here, once. Links
// that a task can have created are not followed, now or later: the node does not have a volume whose path
// contains one.
func hostVolumes(cfg *Config, db *state.DB, log *slog.Logger) (map[string]*nomad.ClientHostVolumeConfig, error) {
	last, err := db.HostVolumePaths()
	if err != nil {
		return nil, err
	}
	out, paths := map[string]*nomad.ClientHostVolumeConfig{}, map[string]state.HostVolumePath{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.HostVolumes)) {
		v := cfg.HostVolumes[name]
		path, err := sandbox.RealPath(v.Path)
		switch {
		case errors.Is(err, unix.ELOOP):
			log.Error("a host volume is not available: its path contains a link that a task can have created", "volume", name, "path", v.Path, "err", err)
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("host volume %q: %w: create it, or remove the host_volume block", name, &fs.PathError{Op: "open", Path: v.Path, Err: err}))
			continue
		}
		if was, ok := last[name]; ok && was.Configured == v.Path && was.Real != path {
			log.Warn("the path of a host volume leads to another directory than at the last start of the agent", "volume", name, "path", v.Path, "now", path, "before", was.Real)
		}
		paths[name] = state.HostVolumePath{Configured: v.Path, Real: path}
		for _, own := range []string{cfg.StateDir, cfg.AllocDir} {
			if holds(path, own) || holds(own, path) {
				log.Warn("a host volume overlaps a directory of the agent: tasks may read files of the agent and of other tasks", "volume", name, "path", path, "agent", own)
			}
		}
		out[name] = &nomad.ClientHostVolumeConfig{Name: name, Path: path, ReadOnly: v.ReadOnly}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if maps.Equal(paths, last) {
		return out, nil
	}
	return out, db.PutHostVolumePaths(paths)
}

// holds reports whether path is dir or below it.
func holds(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
