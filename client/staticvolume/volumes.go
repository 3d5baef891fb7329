// Package staticvolume resolves the paths of the host volumes in the configuration of a node. It has no goroutines.
package staticvolume

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/nomad"
)

// Volume is a directory of the node that jobs may mount.
type Volume struct {
	Path     string
	ReadOnly bool
}

// Config is the configuration of the host volumes.
type Config struct {
	Volumes map[string]Volume // by name
	// Private are directories of the agent, which volumes should not overlap.
	Private []string
	// Writable are directories in which tasks can create links.
	Writable []string
	DB       *state.DB
	Log      *slog.Logger
}

// volumePath is the resolved path of a configured volume.
type volumePath struct {
	real  string
	links []string // the paths of the links that lead there
}

// Resolve checks the paths of the configured volumes. Symbolic links are resolved here, once. Links
// that a task can have created are not followed, now or later: the node does not have a volume whose path
// contains one.
func Resolve(cfg Config) (map[string]*nomad.ClientHostVolumeConfig, error) {
	last, err := cfg.DB.HostVolumePaths()
	if err != nil {
		return nil, err
	}
	found, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	out, paths := map[string]*nomad.ClientHostVolumeConfig{}, map[string]state.HostVolumePath{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		v, path := cfg.Volumes[name], found[name].real
		log := cfg.Log.With("volume", name, "path", v.Path)
		if link, in := cfg.planted(found, name); link != "" {
			log.Error("a host volume is not available: its path contains a link in a directory in which tasks can write",
				"link", link, "directory", in)
			continue
		}
		if was, ok := last[name]; ok && was.Configured == v.Path && was.Real != path {
			log.Warn("the path of a host volume leads to another directory than at the last start of the agent",
				"now", path, "before", was.Real)
		}
		paths[name] = state.HostVolumePath{Configured: v.Path, Real: path}
		for _, private := range cfg.Private {
			if safefs.Within(private, path) || safefs.Within(path, private) {
				cfg.Log.Warn("a host volume overlaps a directory of the agent: tasks may read files of the agent and of other tasks",
					"volume", name, "path", path, "agent", private)
			}
		}
		out[name] = &nomad.ClientHostVolumeConfig{Name: name, Path: path, ReadOnly: v.ReadOnly}
	}
	if maps.Equal(paths, last) {
		return out, nil
	}
	return out, cfg.DB.PutHostVolumePaths(paths)
}

// resolve resolves the paths of the configured volumes. It leaves out those with a link that others than root can
// have created.
func (cfg Config) resolve() (map[string]volumePath, error) {
	found := map[string]volumePath{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.Volumes)) {
		path := cfg.Volumes[name].Path
		real, links, err := sandbox.RealPath(path)
		switch {
		case errors.Is(err, unix.ELOOP):
			cfg.Log.Error("a host volume is not available: its path contains a link that a task can have created",
				"volume", name, "path", path, "err", err)
		case err != nil:
			err = &fs.PathError{Op: "open", Path: path, Err: err}
			errs = append(errs, fmt.Errorf("host volume %q: %w: create it, or remove the host_volume block", name, err))
		default:
			found[name] = volumePath{real, links}
		}
	}
	return found, errors.Join(errs...)
}

// planted returns a link of root in the path of a volume that a task can have created, and the directory of tasks in which
// it is: a container that runs as root can create links of root in a writable volume.
func (cfg Config) planted(found map[string]volumePath, name string) (link, in string) {
	dirs := slices.Clone(cfg.Writable)
	for other, v := range found {
		if other != name && !cfg.Volumes[other].ReadOnly {
			dirs = append(dirs, v.real)
		}
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		for _, link := range found[name].links {
			if dir != "" && safefs.Within(link, dir) {
				return link, dir
			}
		}
	}
	return "", ""
}
