package taskhook

import (
	"context"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// environmentHook gives the host's environment to tasks that are not isolated
// from the host at all; every other task gets only what the job says.
type environmentHook struct {
	host      map[string]string // without what the operator denies
	isolation drivers.FSIsolation
}

func (*environmentHook) Name() string { return "environment" }

func (h *environmentHook) Prestart(_ context.Context, _ *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if h.isolation == drivers.FSIsolationNone {
		resp.HostEnv = h.host
	}
	return nil
}
