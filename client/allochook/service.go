package allochook

import (
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// groupServiceHook registers the services of the group while its tasks run. They are removed before the first task is
// stopped, so that no caller finds an address that is about to close. When the agent shuts down they stay registered.
type groupServiceHook struct {
	services *service.Registrar // nil if the client has none
	node     *nomad.Node
	region   string
	owner    string

	mu      sync.Mutex
	alloc   *nomad.Allocation
	network *nomad.AllocNetworkStatus
	begun   bool // Prerun has registered the services
	over    bool // they are removed for good
}

func newGroupServiceHook(c Config) hook.Hook {
	return &groupServiceHook{services: c.Services, node: c.Node, region: c.Region,
		owner: service.Owner(c.Alloc.ID, catalog.GroupWorkload(c.Alloc.TaskGroup))}
}

func (*groupServiceHook) Name() string { return "group_services" }

func (h *groupServiceHook) Prerun(_ context.Context, req *PrerunRequest, _ *PrerunResponse) error {
	if req.Alloc.TerminalStatus() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alloc, h.network, h.begun = req.Alloc, req.Network, true
	return h.register()
}

// Update registers new and changed services, then removes the others.
func (h *groupServiceHook) Update(_ context.Context, req *UpdateRequest, _ *UpdateResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alloc = req.Alloc
	if req.Alloc.TerminalStatus() {
		return nil // PreKill removes them
	}
	return h.register()
}

// register registers the services of the allocation. The caller holds mu.
func (h *groupServiceHook) register() error {
	if !h.begun || h.over {
		return nil
	}
	w := service.OfGroup(h.alloc, h.node, h.region, h.network)
	regs, err := w.Registrations()
	if err != nil {
		return err
	}
	if h.services == nil {
		if len(regs) > 0 {
			return service.ErrDisabled
		}
		return nil
	}
	h.services.Set(h.owner, regs)
	return nil
}

// PreTaskRestart removes the services and registers them again after the shutdown_delay, so that callers notice.
func (h *groupServiceHook) PreTaskRestart(ctx context.Context, req *PreTaskRestartRequest) error {
	if h.services == nil {
		return nil
	}
	h.services.Remove(ctx, h.owner)
	req.Delay(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.register()
}

// PreKill removes the services and waits until the servers have done so, for one second at most.
func (h *groupServiceHook) PreKill(ctx context.Context, _ *PreKillRequest) error {
	h.end()
	if h.services != nil {
		h.services.Remove(ctx, h.owner)
	}
	return nil
}

// Postrun removes the services of tasks that have ended by themselves.
func (h *groupServiceHook) Postrun(context.Context) error {
	h.end()
	if h.services != nil {
		h.services.Drop(h.owner)
	}
	return nil
}

func (h *groupServiceHook) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}
