package consul

import (
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

// Complete reports whether all services of an allocation that are to be registered now have been set (service.Complete).
func Complete(states States, a *nomad.Allocation, tasks map[string]*nomad.TaskState) bool {
	has := func(owner string) bool { return len(states.States(owner)) > 0 }
	return service.Complete(nomad.ServiceProviderConsul, has, a, tasks)
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
