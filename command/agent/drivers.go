package agent

import (
	"log/slog"
	"slices"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// drivers returns the drivers that the client options allow. The mock driver is for tests: only
// -dev or a plugin block enables it. Tasks do not see the directories in own.
func (s *Settings) drivers(log *slog.Logger, super *supervise.Client, own []string) []drivers.Driver {
	allow := list(s.option("driver.allowlist", "driver.whitelist"))
	deny := list(s.option("driver.denylist", "driver.blacklist"))
	var out []drivers.Driver
	for _, d := range []drivers.Driver{exec2.New(log, super, own...), rawexec.New(log, super), mock.New(log)} {
		name := d.Name()
		switch {
		case slices.Contains(deny, name), len(allow) > 0 && !slices.Contains(allow, name):
		case name == mock.Name && !s.dev && s.Plugin[mock.Name] == nil:
		default:
			out = append(out, d)
		}
	}
	return out
}
