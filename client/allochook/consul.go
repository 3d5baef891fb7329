package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/hook"
)

// consulHook logs the services and tasks of the allocation in to Consul. It does not wait: a task waits for its token, and a
// service is not registered before it has one.
type consulHook struct{ tokens *token.Manager }

func newConsulHook(c Config) hook.Hook { return &consulHook{c.Tokens} }

func (*consulHook) Name() string { return "consul" }

func (h *consulHook) Prerun(_ context.Context, _ *PrerunRequest, resp *PrerunResponse) error {
	if h.tokens.Prepare() {
		resp.Background = h.run
	}
	return nil
}

// Update logs in the services that the new version adds.
func (h *consulHook) Update(_ context.Context, req *UpdateRequest, resp *UpdateResponse) error {
	if h.tokens.Update(req.Alloc) {
		resp.Background = h.run
	}
	return nil
}

func (h *consulHook) run(ctx context.Context) {
	_ = h.tokens.Run(ctx) // ends with ctx
}

// consulEndHook logs the workloads out of Consul, after the hooks that remove their services.
type consulEndHook struct{ tokens *token.Manager }

func newConsulEndHook(c Config) hook.Hook { return &consulEndHook{c.Tokens} }

func (*consulEndHook) Name() string { return "consul_end" }

// Update logs out the services that the new version has not.
func (h *consulEndHook) Update(_ context.Context, req *UpdateRequest, _ *UpdateResponse) error {
	h.tokens.Trim(req.Alloc)
	return nil
}

// Postrun logs out all workloads. It waits for one second at most.
func (h *consulEndHook) Postrun(ctx context.Context) error {
	h.tokens.End(ctx)
	return nil
}

// Destroy logs out what Postrun could not read.
func (h *consulEndHook) Destroy(ctx context.Context) error { return h.Postrun(ctx) }
