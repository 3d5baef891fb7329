package taskrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// confinement lets a hook run programs of the client as the task would run in this attempt.
func (r *Runner) confinement() (*taskhook.Confinement, error) {
	if r.dir == nil {
		return nil, errors.New("the task has no directory")
	}
	cfg, _, err := r.taskConfig()
	if err != nil {
		return nil, err
	}
	name := r.cfg.Driver.Name()
	confiner, by := r.cfg.Hooks.Confiner, "driver "+name
	own, ok := r.cfg.Driver.(drivers.Confiner)
	if ok {
		confiner = own
	}
	if confiner == nil {
		return nil, fmt.Errorf("nothing can confine programs that work for a task of driver %s", name)
	}
	// Such a driver has no sandbox, or one that cannot be used for other programs than the task.
	if !ok || r.cfg.Driver.Capabilities().FSIsolation == drivers.FSIsolationNone {
		by = "the client, not by driver " + name
	}
	return &taskhook.Confinement{By: by, Memory: cfg.Limits.SidecarLimit(), Run: func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
		return confiner.Confine(ctx, cfg, s)
	}}, nil
}
