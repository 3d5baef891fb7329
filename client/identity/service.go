package identity

import (
	"cmp"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// Service is a service of Consul with an identity.
type Service struct {
	*nomad.Service
	Task         string // "" for a service of the group
	Interpolated string // the name as this node interpolates it, in the claims of the identity
}

// Handle returns the handle of the service's identity.
func (s Service) Handle() message.WIHandle {
	return message.WIHandle{
		IdentityName: s.Identity.Name, WorkloadIdentifier: s.Name, WorkloadType: message.WorkloadTypeService,
		InterpolatedWorkloadIdentifier: s.Interpolated,
	}
}

// Services returns the services of an allocation that are registered in Consul and have an identity.
func Services(a *nomad.Allocation, node *nomad.Node, region string) []Service {
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return nil
	}
	var out []Service
	add := func(task *nomad.Task, services []*nomad.Service) {
		names := taskenv.NewNames(taskenv.Subject{Node: node, Region: region, Alloc: a, Task: task})
		for _, s := range services {
			if s.Identity == nil || cmp.Or(s.Provider, nomad.ServiceProviderConsul) != nomad.ServiceProviderConsul {
				continue
			}
			out = append(out, Service{s, task.Name, names.Name(s.Name)})
		}
	}
	add(&nomad.Task{}, group.Services)
	for _, task := range group.Tasks {
		add(task, task.Services)
	}
	return out
}
