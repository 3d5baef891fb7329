package allochook

import (
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// groupServiceHook registers the services of the group while its tasks run. They are removed before the first task is
// stopped, so that no caller finds an address that is about to close. When the agent shuts down they stay registered.
// Each change of the status of a check registers them again with their health.
type groupServiceHook struct {
	node   *nomad.Node
	region string

	mu        sync.Mutex
	publisher service.Publisher
	alloc     *nomad.Allocation
	network   *nomad.AllocNetworkStatus
	begun     bool // Prerun has registered the services
	restart   bool // they are removed for a restart
	over      bool // they are removed for good
}

func newGroupServiceHook(c Config) hook.Hook {
	h := &groupServiceHook{node: c.Node, region: c.Region}
	h.publisher = service.Publisher{Registrar: c.Services, Owner: service.Owner(c.Alloc.ID, catalog.GroupWorkload(c.Alloc.TaskGroup))}
	if c.Checks != nil { // else the interface would have a nil pointer
		h.publisher.Checks = c.Checks
	}
	if c.Consul != nil {
		h.publisher.Consul = consul.New(c.Consul, c.Tokens)
	}
	return h
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
	if !h.begun || h.restart || h.over {
		return nil
	}
	w := service.OfGroup(h.alloc, h.node, h.region, h.network)
	return h.publisher.Publish(&w, h.healthChanged)
}

// healthChanged registers the services again. An error was reported when they were registered.
func (h *groupServiceHook) healthChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.register() //nolint:errcheck // see above
}

// PreTaskRestart removes the services and registers them again after the shutdown_delay, so that callers notice.
func (h *groupServiceHook) PreTaskRestart(ctx context.Context, req *PreTaskRestartRequest) error {
	if !h.publisher.Enabled() {
		return nil
	}
	h.setRestart(true)
	h.publisher.Remove(ctx)
	req.Delay(ctx)
	h.setRestart(false)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.register()
}

// setRestart sets whether a restart is in progress. A change of health does not register the services during it.
func (h *groupServiceHook) setRestart(restart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.restart = restart
}

// PreKill removes the services and waits until this is acknowledged, for one second at most.
func (h *groupServiceHook) PreKill(ctx context.Context, _ *PreKillRequest) error {
	h.finish()
	h.publisher.Remove(ctx)
	return nil
}

// Postrun removes the services of tasks that have ended by themselves.
func (h *groupServiceHook) Postrun(context.Context) error {
	h.finish()
	h.publisher.Drop()
	return nil
}

func (h *groupServiceHook) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.publisher.Unfollow()
}
