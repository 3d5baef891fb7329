package agent

import (
	"errors"

	"github.com/open-nomad/open-nomad/drivers"
	plugin "github.com/open-nomad/open-nomad/plugins/drivers"
)

// drivers opens the instances of drivers of the configuration. Tasks do not see the directories in
// own.
func (a *Agent) drivers(own []string) ([]plugin.Driver, error) {
	host := drivers.NewHost(a.log, a.super, own)
	var out []plugin.Driver
	var errs []error
	for _, i := range a.set.Drivers() {
		d, err := host.Open(i)
		if err != nil {
			errs = append(errs, a.set.PluginFault(i.Label, err))
			continue
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}
