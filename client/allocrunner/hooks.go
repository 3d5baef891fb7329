package allocrunner

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// prerun lets every hook prepare the allocation; start runs a Background function.
func (r *Runner) prerun(ctx context.Context, start func(func(context.Context))) (dir *allocdir.Dir, err error) {
	alloc := r.withHealth()
	err = hook.Each(r.hooks, "prerun", func(h allochook.PrerunHook) error {
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

// withHealth is the allocation with the verdict that is known here, which the
// servers may not have sent back yet.
func (r *Runner) withHealth() *nomad.Allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	alloc := *r.alloc
	alloc.DeploymentStatus = r.deploy
	return &alloc
}
