package allocrunner

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// prepared is the result of the prerun hooks.
type prepared struct {
	dir   *allocdir.Dir // may be set despite an error
	netNS string        // "" for the host's
	// netLabels are the labels of the driver that created netNS.
	netLabels map[string]string
	network   *nomad.AllocNetworkStatus // nil for the host's
	hostname  string                    // "" for the node's
}

// prerun runs the prerun hooks. It passes their Background functions to start.
func (r *Runner) prerun(ctx context.Context, start func(func(context.Context))) (got prepared, err error) {
	alloc := r.withHealth()
	err = hook.Each(r.hooks, "prerun", func(h allochook.PrerunHook) error {
		resp := &allochook.PrerunResponse{}
		err := h.Prerun(ctx, &allochook.PrerunRequest{Alloc: alloc}, resp)
		if resp.Dir != nil {
			got.dir = resp.Dir
		}
		if resp.NetNS != "" {
			got.netNS, got.netLabels, got.network, got.hostname = resp.NetNS, resp.NetLabels, resp.Network, resp.Hostname
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

// postrun runs the postrun hooks after the last task. The next agent removes what a failed hook
// leaves behind.
func (r *Runner) postrun(ctx context.Context) {
	hook.All(r.hooks, "postrun", func(h allochook.PostrunHook) error { return h.Postrun(ctx) })
}

// withHealth returns the allocation with the node's own deployment health, which the servers
// may not have sent back yet.
func (r *Runner) withHealth() *nomad.Allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	alloc := *r.alloc
	alloc.DeploymentStatus = r.deploy
	return &alloc
}
