package agent

import (
	"log/slog"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// allDrivers returns the drivers of this version, in the order of config.Drivers. Tasks do not see
// the directories in own.
func allDrivers(log *slog.Logger, super *supervise.Client, own []string) []drivers.Driver {
	return []drivers.Driver{exec2.New(log, super, own...), rawexec.New(log, super, own...), mock.New(log)}
}

// drivers returns the drivers that the configuration allows.
func (a *Agent) drivers(own []string) []drivers.Driver {
	var out []drivers.Driver
	for _, d := range allDrivers(a.log, a.super, own) {
		if a.set.AllowsDriver(d.Name()) {
			out = append(out, d)
		}
	}
	return out
}
