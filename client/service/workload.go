package service

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// ErrDisabled is returned for the services of a client on which native services are disabled.
var ErrDisabled = errors.New(`service registration provider "nomad" not enabled`)

// Workload is the group of an allocation or one of its tasks, with its services.
type Workload struct {
	Alloc    *nomad.Allocation
	Node     *nomad.Node
	Task     string // "" for the group
	Services []*nomad.Service
	Env      *taskenv.Env
	Network  Network
}

// OfGroup returns the workload of the group's services. status is nil for the host's network.
func OfGroup(a *nomad.Allocation, node *nomad.Node, region string, status *nomad.AllocNetworkStatus) Workload {
	w := Workload{Alloc: a, Node: node, Network: Network{Status: status}}
	// The group has the environment of the allocation, without variables of a task.
	w.Env = taskenv.New(taskenv.Subject{Node: node, Region: region, Alloc: a, Task: &nomad.Task{}, Network: status}).Build()
	if group := a.Job.TaskGroup(a.TaskGroup); group != nil {
		w.Services = group.Services
	}
	if r := a.AllocatedResources; r != nil {
		w.Network.Ports, w.Network.Networks = r.Shared.Ports, r.Shared.Networks
	}
	return w
}

// OfTask returns the workload of a task's services, without the network of its driver.
func OfTask(a *nomad.Allocation, node *nomad.Node, task *nomad.Task, env *taskenv.Env) Workload {
	w := Workload{Alloc: a, Node: node, Task: task.Name, Services: task.Services, Env: env}
	if r := a.AllocatedResources; r != nil {
		w.Network.Ports, w.Network.Networks = r.Shared.Ports, r.Shared.Networks
		if res := r.Tasks[task.Name]; res != nil && len(res.Networks) > 0 {
			w.Network.Networks = res.Networks
		}
	}
	return w
}

// Owner returns the key of a workload for a Registrar. It is unique on the node.
func Owner(alloc, workload string) string { return alloc + "/" + workload }

// Name returns the name of the workload in the IDs of its services.
func (w *Workload) Name() string {
	if w.Task == "" {
		return catalog.GroupWorkload(w.Alloc.TaskGroup)
	}
	return w.Task
}

// of returns the workload with its services that have a provider.
func (w *Workload) of(provider string) *Workload {
	out := *w
	out.Services = nil
	for _, s := range w.Services {
		if cmp.Or(s.Provider, nomad.ServiceProviderConsul) == provider {
			out.Services = append(out.Services, s)
		}
	}
	return &out
}

// Registrations returns the native registrations of the workload's services, in their order and without their health. One
// service that cannot be resolved or has too much text fails all.
func (w *Workload) Registrations() ([]*catalog.Registration, error) {
	var out []*catalog.Registration
	for _, s := range w.Services {
		r, err := w.registration(s)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (w *Workload) registration(s *nomad.Service) (*catalog.Registration, error) {
	name := w.Env.Expand(s.Name)
	if !catalog.ServiceName(name) {
		return nil, fmt.Errorf("service %q: the name must have 1 to 63 letters, digits and dashes, and no dash at its ends", name)
	}
	addr, err := w.Network.Resolve(w.Ask(s))
	if err == nil {
		err = catalog.CheckSpecific(addr.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("unable to get address for service %q: %w", name, err)
	}
	tags := s.Tags
	if w.Alloc.IsCanary() && len(s.CanaryTags) > 0 {
		tags = s.CanaryTags
	}
	r := &catalog.Registration{
		ID:          catalog.ID(w.Alloc.ID, w.Name(), name, w.Env.Expand(s.PortLabel)),
		ServiceName: name, Namespace: w.Alloc.Namespace, NodeID: w.Node.ID, Datacenter: w.Node.Datacenter,
		JobID: w.Alloc.JobID, AllocID: w.Alloc.ID, Tags: w.Expanded(tags), Address: addr.Host, Port: addr.Port,
	}
	return r, w.details(r, s)
}

// Ask returns what a service configures about its address.
func (w *Workload) Ask(s *nomad.Service) Ask {
	return Ask{Mode: s.AddressMode, Address: w.Env.Expand(s.Address), Port: w.Env.Expand(s.PortLabel)}
}

// AskCheck returns what a check of a service configures about its address.
func (w *Workload) AskCheck(s *nomad.Service, c *nomad.ServiceCheck) Ask {
	ask := Ask{Mode: c.AddressMode, Address: w.Env.Expand(s.Address), Port: w.Env.Expand(cmp.Or(c.PortLabel, s.PortLabel))}
	if ask.Mode == "" {
		ask.Mode = ModeHost
		if ask.Address != "" {
			ask.Mode = ModeAuto
		}
	}
	return ask
}

// Expanded interpolates a list.
func (w *Workload) Expanded(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = w.Env.Expand(s)
	}
	return slices.Clip(out)
}
