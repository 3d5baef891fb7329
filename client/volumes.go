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

// volumePath is the resolved path of a configured volume.
type volumePath struct {
	real  string
	links []string // the paths of the links that lead there
}

// hostVolumes checks the paths of the configured volumes. Symbolic links are resolved here, once. Links
// that a task can have created are not followed, now or later: the node does not have a volume whose path
// contains one.
func hostVolumes(cfg *Config, db *state.DB, log *slog.Logger) (map[string]*nomad.ClientHostVolumeConfig, error) {
	last, err := db.HostVolumePaths()
	if err != nil {
		return nil, err
	}
	found, err := resolveVolumes(cfg, log)
	if err != nil {
		return nil, err
	}
	out, paths := map[string]*nomad.ClientHostVolumeConfig{}, map[string]state.HostVolumePath{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		v, path := cfg.HostVolumes[name], found[name].real
		if link, in := planted(cfg, found, name); link != "" {
			log.Error("a host volume is not available: its path contains a link in a directory in which tasks can write", "volume", name, "path", v.Path, "link", link, "directory", in)
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
	if maps.Equal(paths, last) {
		return out, nil
	}
	return out, db.PutHostVolumePaths(paths)
}

// resolveVolumes resolves the paths of the configured volumes. It leaves out those with a link that others than root can
// have created.
func resolveVolumes(cfg *Config, log *slog.Logger) (map[string]volumePath, error) {
	found := map[string]volumePath{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.HostVolumes)) {
		path := cfg.HostVolumes[name].Path
		real, links, err := sandbox.RealPath(path)
		switch {
		case errors.Is(err, unix.ELOOP):
			log.Error("a host volume is not available: its path contains a link that a task can have created", "volume", name, "path", path, "err", err)
		case err != nil:
			errs = append(errs, fmt.Errorf("host volume %q: %w: create it, or remove the host_volume block", name, &fs.PathError{Op: "open", Path: path, Err: err}))
		default:
			found[name] = volumePath{real, links}
		}
	}
	return found, errors.Join(errs...)
}

// planted returns a link of root in the path of a volume that a task can have created, and the directory of tasks in which
// it is: a container that runs as root can create links of root in a writable volume.
func planted(cfg *Config, found map[string]volumePath, name string) (link, in string) {
	dirs := []string{cfg.AllocDir, cfg.HostVolumesDir}
	for other, v := range found {
		if other != name && !cfg.HostVolumes[other].ReadOnly {
			dirs = append(dirs, v.real)
		}
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		for _, link := range found[name].links {
			if dir != "" && holds(dir, link) {
				return link, dir
			}
		}
	}
	return "", ""
}

// holds reports whether path is dir or below it.
func holds(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
