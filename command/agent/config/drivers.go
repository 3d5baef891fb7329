package config

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/drivers"
)

// Drivers returns the instances of drivers that the agent runs, in the order of their names.
func (s *Settings) Drivers() []drivers.Instance {
	all, _ := s.instances() // checkPlugins has reported the errors
	return slices.DeleteFunc(all, func(i drivers.Instance) bool { return !s.allowsDriver(i.Name) })
}

// PluginFault returns an error about a plugin block, with its place.
func (s *Settings) PluginFault(label string, err error) error {
	return s.Fault("plugin."+label, "%v", err)
}

// instances returns the instances that the plugin blocks and client.options configure.
func (s *Settings) instances() ([]drivers.Instance, []*drivers.BlockError) {
	blocks := map[string]drivers.Block{}
	for label, p := range s.Plugin {
		blocks[label] = drivers.Block{Backend: p.Backend, Config: p.Config}
	}
	if s.optionSet("driver.raw_exec.enable") {
		b := blocks["raw_exec"]
		raw := map[string]any{"enabled": true}
		maps.Copy(raw, b.Config)
		blocks["raw_exec"] = drivers.Block{Backend: b.Backend, Config: raw}
	}
	kinds := drivers.Kinds()
	if s.Dev {
		devBlocks(kinds, blocks)
	}
	return drivers.Instances(kinds, blocks)
}

// devBlocks changes the blocks as -dev does: it adds one of each kind that needs a block or has
// defaults for -dev, and adds these defaults to the blocks of the kind.
func devBlocks(kinds []drivers.Kind, blocks map[string]drivers.Block) {
	for _, k := range kinds {
		if _, given := blocks[k.Name]; !given && (k.OptIn || k.DevConfig != nil) {
			blocks[k.Name] = drivers.Block{}
		}
	}
	for label, b := range blocks {
		at := slices.IndexFunc(kinds, func(k drivers.Kind) bool { return k.Name == cmp.Or(b.Backend, label) })
		if at < 0 || kinds[at].DevConfig == nil {
			continue
		}
		config := maps.Clone(kinds[at].DevConfig)
		maps.Copy(config, b.Config)
		blocks[label] = drivers.Block{Backend: b.Backend, Config: config}
	}
}

// backends returns the kinds of the instances by name.
func (s *Settings) backends() map[string]string {
	out := map[string]string{}
	for _, i := range s.Drivers() {
		out[i.Name] = i.Kind.Name
	}
	return out
}

// allowsDriver reports whether client.options allow an instance of a driver.
func (s *Settings) allowsDriver(name string) bool {
	allow := list(s.option("driver.allowlist", "driver.whitelist"))
	deny := list(s.option("driver.denylist", "driver.blacklist"))
	return !slices.Contains(deny, name) && (len(allow) == 0 || slices.Contains(allow, name))
}

// PluginDir returns the directory of the programs of external drivers, "" for none.
func (s *Settings) PluginDir(dataDir string) string {
	if s.Config.PluginDir != "" || dataDir == "" {
		return s.Config.PluginDir
	}
	return filepath.Join(dataDir, "plugins")
}

// Externals returns the plugin blocks that a program in plugin_dir must provide, by label.
func (s *Settings) Externals() map[string]*Plugin {
	out := map[string]*Plugin{}
	_, wrong := s.instances()
	for _, w := range wrong {
		if w.Unknown && s.external(w.Label) {
			out[w.Label] = s.Plugin[w.Label]
		}
	}
	return out
}

// external reports whether plugin_dir may have the program of a block. A backend can be the name of a
// driver, which only its program knows.
func (s *Settings) external(label string) bool {
	dir := s.PluginDir(s.DataDir)
	if dir == "" {
		return false
	}
	if s.Plugin[label].Backend == "" {
		_, err := os.Lstat(filepath.Join(dir, label))
		return err == nil
	}
	list, err := os.ReadDir(dir)
	return err == nil && len(list) > 0
}

// AllowsDriver reports whether client.options allow a driver.
func (s *Settings) AllowsDriver(name string) bool { return s.allowsDriver(name) }

// AbsentPlugins returns the sorted labels of the plugin blocks of drivers that neither this version nor plugin_dir has. A
// client starts without these drivers.
func (s *Settings) AbsentPlugins() []string {
	var out []string
	_, wrong := s.instances()
	for _, w := range wrong {
		if w.Unknown && s.Plugin[w.Label].Backend == "" && !s.external(w.Label) {
			out = append(out, w.Label)
		}
	}
	return out
}

// unknownDriver is the error for a plugin block of a driver that this version does not have.
type unknownDriver struct{ error }

// checkPlugins checks the plugin blocks. An agent without a client accepts unknown backends, because it
// runs no driver. A block of an unknown driver without a backend is accepted: see AbsentPlugins.
func (s *Settings) checkPlugins() error {
	_, wrong := s.instances()
	var errs []error
	for _, w := range wrong {
		path := "plugin." + w.Label
		if w.Key != "" {
			path += "." + w.Key
		}
		switch err := s.Fault(path, "%v", w.Err); {
		case w.Unknown && (s.external(w.Label) || s.Plugin[w.Label].Backend == ""):
		case !w.Unknown:
			errs = append(errs, err)
		case s.Client.Enabled:
			errs = append(errs, unknownDriver{err})
		}
	}
	return errors.Join(errs...)
}
