package taskhook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// environmentHook passes the host's environment to tasks without isolation, and to those that see the host's programs
// in a root of their own. An emulator and other tasks get only the job's environment.
type environmentHook struct {
	host      map[string]string // without the names on the denylist
	isolation drivers.FSIsolation
	none      bool // the driver needs no variable of the host
}

func newEnvironmentHook(c Config) hook.Hook {
	return &environmentHook{host: c.HostEnv, isolation: c.Capabilities.FSIsolation, none: c.Capabilities.OwnEnvironment}
}

func (*environmentHook) Name() string { return "environment" }

func (h *environmentHook) Prestart(_ context.Context, _ *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if h.none {
		return nil
	}
	if h.isolation == drivers.FSIsolationNone || h.isolation == drivers.FSIsolationChroot {
		resp.HostEnv = h.host
	}
	return nil
}
