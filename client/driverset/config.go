package driverset

import (
	"errors"
	"fmt"
	"maps"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// aliased is a driver whose plugin block may go by other names too, such as that of
// the program it was once a plugin of.
type aliased interface{ Aliases() []string }

// configure gives a driver its plugin block, decoded by the driver's own schema.
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

// byDriver returns the plugin blocks by the name of their driver. Two for the same
// driver are an error: which of them counts could only be guessed.
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
