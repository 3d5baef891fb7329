package nomad

import (
	"cmp"
	"reflect"
	"slices"
)

// The states of a check, and what it affects: a deployment waits for healthiness checks only.
const (
	CheckSuccess CheckStatus = "success"
	CheckFailure CheckStatus = "failure"
	CheckPending CheckStatus = "pending"
	Healthiness  CheckMode   = "healthiness"
	Readiness    CheckMode   = "readiness"
)

// ServiceRegistration is one address of a service. The client of the allocation writes it. It has no health: failing
// checks do not hide a service.
type ServiceRegistration struct {
	ID          string // see RegistrationID
	ServiceName string
	Namespace   string // of the job
	NodeID      string
	Datacenter  string // of the node
	JobID       string
	AllocID     string
	Tags        []string
	Address     string
	Port        int // 0 if the service has no port
	CreateIndex uint64
	ModifyIndex uint64
}

// RegistrationID returns the ID of a registration. workload is the name of the task, or GroupWorkload. port is the
// label of the port as the job has it, perhaps empty. Source: compat/services-network.md, section 2.
func RegistrationID(alloc, workload, service, port string) string {
	return RegistrationPrefix(alloc) + workload + "-" + service + "-" + port
}

// ErrNoRegistration is the error of a deletion of a service registration that does not exist. Clients of Nomad 2.0
// recognise the text.
var ErrNoRegistration error = &CodedError{Code: 404, Message: "service registration not found"}

// RegistrationPrefix returns the text with which the IDs of all registrations of an allocation begin.
func RegistrationPrefix(alloc string) string { return "_nomad-task-" + alloc + "-" }

// AllServices returns the services of the group and of its tasks.
func (tg *TaskGroup) AllServices() []*Service {
	out := slices.Clone(tg.Services)
	for _, t := range tg.Tasks {
		if t != nil {
			out = append(out, t.Services...)
		}
	}
	return slices.DeleteFunc(out, func(s *Service) bool { return s == nil })
}

// GroupWorkload returns the workload name of the services of a group.
func GroupWorkload(group string) string { return "group-" + group }

// ServiceRegistrationListStub lists the services of one namespace.
type ServiceRegistrationListStub struct {
	Namespace string
	Services  []*ServiceRegistrationStub
}

// ServiceRegistrationStub is the name of a service with the tags of all its registrations.
type ServiceRegistrationStub struct {
	ServiceName string
	Tags        []string
}

// Equal reports whether two registrations describe the same address. Tags are compared as sets; the indexes are not
// compared.
func (r *ServiceRegistration) Equal(other *ServiceRegistration) bool {
	a, b := *r, *other
	a.CreateIndex, a.ModifyIndex = b.CreateIndex, b.ModifyIndex
	a.Tags, b.Tags = tagSet(a.Tags), tagSet(b.Tags)
	return reflect.DeepEqual(a, b)
}

// tagSet returns the tags sorted and without duplicates, nil if there are none.
func tagSet(tags []string) []string {
	if len(tags) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(tags)))
}

// The catalogs of services, and the types of checks.
const (
	ServiceProviderConsul = "consul"
	ServiceProviderNomad  = "nomad"
	ServiceCheckHTTP      = "http"
	ServiceCheckTCP       = "tcp"
	ServiceCheckScript    = "script"
	ServiceCheckGRPC      = "grpc"
)

// CheckTask returns the name of the task in which a script check runs: that of the check, that of the service, or
// owner, the task of the service. owner is "" for services of a group. It returns "" if there is none.
func CheckTask(s *Service, c *ServiceCheck, owner string) string {
	return cmp.Or(c.TaskName, s.TaskName, owner)
}
