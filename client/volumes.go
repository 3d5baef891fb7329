package client

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// HostVolume is a directory of the node that jobs may mount.
type HostVolume struct {
	Path     string
	ReadOnly bool
}

// hostVolumes checks the paths of the configured volumes. Symbolic links are resolved here,
// once. Links that appear later may have been created by a task and are refused.
func hostVolumes(cfg *Config, log *slog.Logger) (map[string]*nomad.ClientHostVolumeConfig, error) {
	out := map[string]*nomad.ClientHostVolumeConfig{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.HostVolumes)) {
		v := cfg.HostVolumes[name]
		path, err := filepath.EvalSymlinks(v.Path)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("host volume %q: %w: create it, or remove the host_volume block", name, err))
			continue
		}
		for _, own := range []string{cfg.StateDir, cfg.AllocDir} {
			if holds(path, own) || holds(own, path) {
				log.Warn("a host volume overlaps a directory of the agent: tasks may read files of the agent and of other tasks", "volume", name, "path", path, "agent", own)
			}
		}
		out[name] = &nomad.ClientHostVolumeConfig{Name: name, Path: path, ReadOnly: v.ReadOnly}
	}
	return out, errors.Join(errs...)
}

// holds reports whether path is dir or below it.
func holds(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
