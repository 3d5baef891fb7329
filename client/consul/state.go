package consul

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// States has the states of services in Consul (reconcile.Reconciler).
type States interface {
	// States returns the states of an owner's services, in the order of Set.
	States(owner string) []reconcile.State
}

// Report returns the states of the services of an allocation, of the group first. They have no token and no text of
// Consul.
func Report(states States, a *nomad.Allocation) []*message.ConsulService {
	var out []*message.ConsulService
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return nil
	}
	add := func(workload, task string) {
		for _, s := range states.States(service.Owner(a.ID, workload)) {
			out = append(out, report(s, task))
		}
	}
	add(catalog.GroupWorkload(a.TaskGroup), "")
	for _, task := range group.Tasks {
		add(task.Name, task.Name)
	}
	return out
}

// Complete reports whether all services of an allocation that are to be registered now have been set, so that any other
// service of it in Consul is a leftover. A restarted agent sets the services of a running task after its hooks, which may
// take long. tasks are the states of the tasks.
func Complete(states States, a *nomad.Allocation, tasks map[string]*nomad.TaskState) bool {
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return true
	}
	missing := func(workload string, services []*nomad.Service) bool {
		return slices.ContainsFunc(services, declared) && len(states.States(service.Owner(a.ID, workload))) == 0
	}
	if missing(catalog.GroupWorkload(a.TaskGroup), group.Services) {
		return false
	}
	return !slices.ContainsFunc(group.Tasks, func(t *nomad.Task) bool {
		return mayRun(tasks[t.Name]) && missing(t.Name, t.Services)
	})
}

// mayRun reports whether a task can have services: it is not dead, and not paused without a process.
func mayRun(s *nomad.TaskState) bool {
	return s == nil || s.State != nomad.TaskStateDead && (s.State != nomad.TaskStatePending || !s.Paused.Pauses())
}

// declared reports whether a service has provider consul.
func declared(s *nomad.Service) bool {
	return cmp.Or(s.Provider, nomad.ServiceProviderConsul) == nomad.ServiceProviderConsul
}

func report(s reconcile.State, task string) *message.ConsulService {
	out := &message.ConsulService{ID: s.ID, Name: s.Name, Task: task, Status: message.ConsulPending, Since: s.Since, Failures: s.Failures}
	switch {
	case s.Registered:
		out.Status = message.ConsulRegistered
	case s.Failures > 0:
		out.Status = message.ConsulFailed
	}
	if s.Err != nil {
		out.Error = consul.Redact(s.Err).Error()
	}
	return out
}
