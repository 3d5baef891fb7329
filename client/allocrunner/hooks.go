package allocrunner

import (
	"context"
	"sync"
	"time"

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
	restored := r.hasHandles()
	err = hook.Each(r.hooks, "prerun", func(h allochook.PrerunHook) error {
		resp := &allochook.PrerunResponse{}
		req := &allochook.PrerunRequest{Alloc: alloc, Dir: got.dir, NetNS: got.netNS, Network: got.network, Restored: restored}
		err := h.Prerun(ctx, req, resp)
		if resp.Dir != nil {
			got.dir = resp.Dir
		}
		if resp.NetNS != "" {
			got.netNS, got.netLabels, got.network, got.hostname = resp.NetNS, resp.NetLabels, resp.Network, resp.Hostname
			r.setNetNS(resp.NetNS)
		}
		if resp.Network != nil {
			got.network = resp.Network
			r.setNetwork(resp.Network)
		}
		if resp.Background != nil {
			start(resp.Background)
		}
		return err
	})
	return got, err
}

// hasHandles reports whether an earlier agent has stored the handle of a process.
func (r *Runner) hasHandles() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.stored {
		if t.Local != nil && t.Local.TaskHandle != nil {
			return true
		}
	}
	return false
}

// postrunGrace is how long postrun hooks continue when the agent ends. The servers may know already that the allocation
// has ended: then nothing of it should remain on a node without an agent.
const postrunGrace = 5 * time.Second

// postrun runs the postrun hooks after the last task. The next agent removes what a failed hook
// leaves behind.
func (r *Runner) postrun(ctx context.Context) {
	agent := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(agent))
	defer cancel()
	defer context.AfterFunc(agent, func() { time.AfterFunc(postrunGrace, cancel) })()
	hook.All(r.hooks, "postrun", func(h allochook.PostrunHook) error { return h.Postrun(ctx) })
}

// preKill runs the pre-kill hooks once, in a goroutine, and reports whether they have finished.
func (r *Runner) preKill(ctx context.Context, work *sync.WaitGroup) bool {
	r.mu.Lock()
	begun, over := r.preKilling, r.preKilled
	r.preKilling = true
	r.mu.Unlock()
	if begun {
		return over
	}
	work.Go(func() {
		hook.All(r.hooks, "pre_kill", func(h allochook.PreKillHook) error {
			return h.PreKill(ctx, &allochook.PreKillRequest{})
		})
		r.mu.Lock()
		r.preKilled = true
		r.mu.Unlock()
		r.nudge()
	})
	return false
}

// preTaskRestart runs the hooks before a restart of all running tasks.
func (r *Runner) preTaskRestart(ctx context.Context) {
	hook.All(r.hooks, "pre_task_restart", func(h allochook.PreTaskRestartHook) error {
		return h.PreTaskRestart(ctx, &allochook.PreTaskRestartRequest{Delay: r.restartDelay})
	})
}

// withHealth returns the allocation with the node's own deployment health, which the servers
// may not have sent back yet.
func (r *Runner) withHealth() *nomad.Allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	alloc := *r.alloc
	if r.deploy != nil {
		deploy := *r.deploy
		deploy.Canary = r.alloc.IsCanary() // the servers promote it
		alloc.DeploymentStatus = &deploy
	}
	return &alloc
}
