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
	confiner, by := r.cfg.Hooks.Confiner, "the client"
	if own, ok := r.cfg.Driver.(drivers.Confiner); ok {
		confiner, by = own, "driver "+r.cfg.Driver.Name()
	}
	if confiner == nil {
		return nil, fmt.Errorf("nothing can confine programs that work for a task of driver %s", r.cfg.Driver.Name())
	}
	return &taskhook.Confinement{By: by, Run: func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
		return confiner.Confine(ctx, cfg, s)
	}}, nil
}
