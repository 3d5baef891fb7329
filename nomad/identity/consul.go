package identity

import (
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// consulNamespace returns the namespace of Consul of a task or service: that of the consul block of the task, or of the group.
// Only identities for Consul claim it.
func (s Subject) consulNamespace() string {
	if !strings.HasPrefix(s.Identity.Name, "consul") {
		return ""
	}
	tg := s.Job.TaskGroup(s.Alloc.TaskGroup)
	if tg == nil {
		return ""
	}
	if t := s.task(tg); t != nil && t.Consul != nil && t.Consul.Namespace != "" {
		return t.Consul.Namespace
	}
	if tg.Consul != nil {
		return tg.Consul.Namespace
	}
	return ""
}

// task returns the task of the workload, nil for a service of the group.
func (s Subject) task(tg *nomad.TaskGroup) *nomad.Task {
	if s.Handle.WorkloadType != message.WorkloadTypeService {
		return tg.Task(s.Handle.WorkloadIdentifier)
	}
	for _, t := range tg.Tasks {
		for _, svc := range t.Services {
			if svc.Name == s.Handle.WorkloadIdentifier && svc.Identity != nil && svc.Identity.Name == s.Identity.Name {
				return t
			}
		}
	}
	return nil
}
