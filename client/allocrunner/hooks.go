package allocrunner

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// prepared is what the hooks gave to the run.
type prepared struct {
	dir   *allocdir.Dir // may be there despite an error
	netNS string        // "" for the host's
}

// prerun lets every hook prepare the allocation; start runs a Background function.
func (r *Runner) prerun(ctx context.Context, start func(func(context.Context))) (got prepared, err error) {
	alloc := r.withHealth()
	err = hook.Each(r.hooks, "prerun", func(h allochook.PrerunHook) error {
		resp := &allochook.PrerunResponse{}
		err := h.Prerun(ctx, &allochook.PrerunRequest{Alloc: alloc}, resp)
		if resp.Dir != nil {
			got.dir = resp.Dir
		}
		if resp.NetNS != "" {
			got.netNS = resp.NetNS
		}
		if resp.Network != nil {
			r.setNetwork(resp.Network)
		}
		if resp.Background != nil {
			start(resp.Background)
		}
		return err
	})
	return got, err
}

// postrun lets every hook clean up after the last task. What one leaves is swept when
// the next agent starts.
func (r *Runner) postrun(ctx context.Context) {
	hook.All(r.hooks, "postrun", func(h allochook.PostrunHook) error { return h.Postrun(ctx) })
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
