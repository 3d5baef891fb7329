package allocrunner

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/nomad"
)

// each calls do for every hook that takes part in a moment, and stops at the
// first error.
func each[H allochook.Hook](r *Runner, moment string, do func(H) error) error {
	for _, hook := range r.hooks {
		h, ok := hook.(H)
		if !ok {
			continue
		}
		if err := measured(moment, h, do); err != nil {
			return fmt.Errorf("hook %s: %w", h.Name(), err)
		}
	}
	return nil
}

// all is each for moments where one hook's error is nobody else's: it is logged.
func all[H allochook.Hook](r *Runner, moment string, do func(H) error) {
	for _, hook := range r.hooks {
		h, ok := hook.(H)
		if !ok {
			continue
		}
		if err := measured(moment, h, do); err != nil {
			r.log.Warn("allocation hook failed", "hook", h.Name(), "moment", moment, "err", err)
		}
	}
}

// measured is the one place where metrics of hooks are taken.
func measured[H allochook.Hook](moment string, h H, do func(H) error) error {
	start := time.Now()
	err := do(h)
	labels := []metrics.Label{{Name: "hook_name", Value: h.Name()}}
	metrics.MeasureSinceWithLabels([]string{"client", "alloc_hook", moment, "elapsed"}, start, labels)
	result := "success"
	if err != nil {
		result = "failed"
	}
	metrics.IncrCounterWithLabels([]string{"client", "alloc_hook", moment, result}, 1, labels)
	return err
}

// prerun lets every hook prepare the allocation; start runs a Background function.
func (r *Runner) prerun(ctx context.Context, start func(func(context.Context))) (dir *allocdir.Dir, err error) {
	alloc := r.withHealth()
	err = each(r, "prerun", func(h allochook.PrerunHook) error {
		resp := &allochook.PrerunResponse{}
		err := h.Prerun(ctx, &allochook.PrerunRequest{Alloc: alloc}, resp)
		if resp.Dir != nil {
			dir = resp.Dir
		}
		if resp.Background != nil {
			start(resp.Background)
		}
		return err
	})
	return dir, err
}

func (r *Runner) postrun(ctx context.Context) {
	all(r, "postrun", func(h allochook.PostrunHook) error { return h.Postrun(ctx) })
}

// withHealth is the allocation with the verdict that is known here, which the
// servers may not have sent back yet.
func (r *Runner) withHealth() *nomad.Allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	alloc := *r.alloc
	alloc.DeploymentStatus = r.deploy
	return &alloc
}
