package taskhook

import (
	"context"
	"fmt"
	"sync"

	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// serviceHook registers the services of the task while its process runs. They are removed before the process is
// stopped. When the agent shuts down they stay registered, and the next agent registers them again. Each change of the
// status of a check registers them again with their health.
type serviceHook struct {
	control Control
	node    *nomad.Node

	mu        sync.Mutex
	publisher service.Publisher
	alloc     *nomad.Allocation
	task      *nomad.Task
	env       *taskenv.Env
	network   *drivers.TaskNetwork
	running   bool // the services are to be registered
	killed    bool // they are removed for good
}

func newServiceHook(c Config) hook.Hook {
	h := &serviceHook{control: c.Control, node: c.Node, alloc: c.Alloc, task: c.Task, publisher: service.Publisher{
		Registrar: c.Services, Checks: c.Checks, Owner: service.Owner(c.Alloc.ID, c.Task.Name)}}
	if c.Consul != nil {
		h.publisher.Consul = consul.New(c.Consul, c.Tokens)
	}
	return h
}

func (*serviceHook) Name() string { return "task_services" }

// Poststart registers the services. An error does not stop the task.
func (h *serviceHook) Poststart(_ context.Context, req *TaskPoststartRequest, _ *TaskPoststartResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.env, h.network, h.task, h.running = req.Env, req.Network, req.Task, true
	return h.register()
}

// Update registers the services of the new version. Before the first Poststart it only keeps it.
func (h *serviceHook) Update(_ context.Context, req *TaskUpdateRequest, _ *TaskUpdateResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alloc, h.task, h.env = req.Alloc, req.Task, req.Env
	return h.register()
}

// EnvChanged implements TaskEnvHook: the services can refer to secrets. An error is an event.
func (h *serviceHook) EnvChanged(env *taskenv.Env) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.env = env
	h.register() //nolint:errcheck // see above
}

// register registers the services if the process runs. The caller holds mu.
func (h *serviceHook) register() error {
	err := h.try()
	if err != nil {
		h.control.Emit(&nomad.TaskEvent{Type: nomad.TaskHookFailed, Message: fmt.Sprintf("%s: %v", h.Name(), err)})
	}
	return err
}

// try is register without an event. The caller holds mu.
func (h *serviceHook) try() error {
	if !h.running || h.killed {
		return nil
	}
	w := service.OfTask(h.alloc, h.node, h.task, h.env)
	w.Network.Driver = h.network
	return h.publisher.Publish(&w, h.healthChanged)
}

// healthChanged registers the services again. An error was reported when they were registered.
func (h *serviceHook) healthChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.try() //nolint:errcheck // see above
}

// PreKill removes the services and waits until this is acknowledged, for one second at most.
func (h *serviceHook) PreKill(ctx context.Context, req *TaskPreKillRequest, _ *TaskPreKillResponse) error {
	h.mu.Lock()
	h.killed = h.killed || req.Final // a kill runs concurrently with Poststart, a restart and a pause
	h.mu.Unlock()
	h.stop()
	h.publisher.Remove(ctx)
	return nil
}

// Exited removes the services.
func (h *serviceHook) Exited(context.Context, *TaskExitedRequest, *TaskExitedResponse) error {
	h.stop()
	h.publisher.Drop()
	return nil
}

// Stop removes the services.
func (h *serviceHook) Stop(context.Context, *TaskStopRequest, *TaskStopResponse) error {
	h.stop()
	h.publisher.Drop()
	return nil
}

// stop prevents later registrations.
func (h *serviceHook) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	h.publisher.Unfollow()
}
