package driverset

import (
	"errors"
	"fmt"
	"maps"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// aliased is implemented by drivers whose plugin block may have other names too, such as the
// name of a former plugin.
type aliased interface{ Aliases() []string }

// configure decodes a plugin block with the driver's schema and passes it to the driver.
func configure(d drivers.Driver, block map[string]any) error {
	val, err := drivers.Decode(block, d.ConfigSpec())
	if err == nil {
		err = d.SetConfig(val)
	}
	if err != nil {
		return fmt.Errorf("plugin %q: %w", d.Name(), err)
	}
	return nil
}

// byDriver returns the plugin blocks by driver name. Two blocks for the same driver are an
// error.
func byDriver(list []drivers.Driver, plugins map[string]map[string]any) (map[string]map[string]any, error) {
	out := maps.Clone(plugins)
	var errs []error
	for _, d := range list {
		a, ok := d.(aliased)
		if !ok {
			continue
		}
		for _, alias := range a.Aliases() {
			block, given := out[alias]
			if !given {
				continue
			}
			delete(out, alias)
			if _, twice := out[d.Name()]; twice {
				errs = append(errs, fmt.Errorf("plugin %q and plugin %q are the same driver: keep one block", d.Name(), alias))
				continue
			}
			out[d.Name()] = block
		}
	}
	return out, errors.Join(errs...)
}
