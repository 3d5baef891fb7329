package hostvolume

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// maxPlugins limits how many files of the plugin directory are used.
const maxPlugins = 64

// version matches a version of one to three numbers with a suffix.
var version = pattern.Lazy(`^v?[0-9]{1,9}(\.[0-9]{1,9}){0,2}([-+.][0-9A-Za-z.+-]{1,64})?$`)

func validVersion(s string) bool { return version().MatchString(s) }

// Fingerprint returns the node attributes of the plugins. Files that are not usable plugins are logged and left out.
func (m *Manager) Fingerprint(ctx context.Context) map[string]string {
	attributes := map[string]string{hostvolume.PluginAttribute(MkdirID): mkdirVersion}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, id := range m.files() {
		group.Go(func() error {
			p := &external{id: id, cfg: &m.cfg}
			v, err := p.fingerprint(ctx)
			if err != nil {
				m.cfg.Log.Warn("host volume plugin is not usable", "plugin", id, "err", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			attributes[hostvolume.PluginAttribute(id)] = v
			return nil
		})
	}
	group.Wait() // the functions return no errors
	return attributes
}

// files returns the names in the plugin directory that may be plugins.
func (m *Manager) files() []string {
	root, err := safefs.Open(m.cfg.PluginDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		m.cfg.Log.Warn("read the directory of host volume plugins", "err", err)
		return nil
	}
	defer root.Close()
	all, err := root.Names()
	if err != nil {
		m.cfg.Log.Warn("read the directory of host volume plugins", "err", err)
	}
	slices.Sort(all)
	var out []string
	for _, id := range all {
		err := rules.HostVolumePlugin(id)
		switch {
		case err != nil, id == MkdirID:
			m.cfg.Log.Warn("a file in the directory of host volume plugins is not used: its name is not valid, or that of a built-in plugin",
				"file", id)
		case len(out) == maxPlugins:
			m.cfg.Log.Warn("the directory of host volume plugins has too many files", "max", maxPlugins, "file", id)
			return out
		default:
			out = append(out, id)
		}
	}
	return out
}
