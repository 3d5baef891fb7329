package hostvolume

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// registrable resolves the links in the path of a registered volume. It refuses the files of the agent, and the
// directories of mkdir for other volumes, which may belong to another namespace.
func (m *Manager) registrable(path, id string) (string, error) {
	real, err := resolved(path)
	if err != nil {
		return "", err
	}
	for _, dir := range append([]string{m.cfg.PluginDir}, m.cfg.Private...) {
		if dir = existing(dir); safefs.Within(real, dir) || safefs.Within(dir, real) {
			return "", fmt.Errorf("%s overlaps %s, which is a directory of the agent: use another path", real, dir)
		}
	}
	volumes := existing(m.cfg.VolumesDir)
	if safefs.Within(volumes, real) {
		return "", fmt.Errorf("%s has the volumes of all namespaces: use another path", real)
	}
	if rest, inside := strings.CutPrefix(real, volumes+"/"); inside {
		if owner, _, _ := strings.Cut(rest, "/"); nomad.IsUUID(owner) && owner != id {
			return "", fmt.Errorf("%s belongs to the volume %s: use another path", real, owner)
		}
	}
	return real, nil
}

// existing resolves the links in a directory, if it exists.
func existing(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return filepath.Clean(dir)
}
