// Package catalog defines the service catalog of a region: the addresses that the clients register for the services of
// their allocations, and short forms of them for lists.
//
// A client writes the registrations of an allocation and deletes them when it stops: client/service. What a job requests is
// Service of package nomad. The package keeps no state and starts no goroutine.
package catalog

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Registration is one address of a service. The client of the allocation writes it, and again when its health changes.
// Lists contain it whatever its health is: as in Nomad 2.0, failing checks do not hide a service.
type Registration struct {
	ID          string // see ID
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

	// The fields below are additions of this project. Clients of Nomad 2.0 leave them empty.
	Meta              map[string]string
	TaggedAddresses   map[string]TaggedAddress
	Weights           *Weights // nil for 1 and 1
	EnableTagOverride bool
	Status            Status // the worst of its checks; see Health
	Checks            []*Check
}

// TaggedAddress is another address of a service, such as that of another network. Port is 0 if it has none.
type TaggedAddress struct {
	Address string
	Port    int
}

// Weights are the weights of a service in DNS answers, by its health.
type Weights struct {
	Passing int
	Warning int
}

// Check is the state of a health check at its last change of status.
type Check struct {
	ID     string
	Name   string
	Type   string // http, tcp, grpc or script
	Status Status
	Output string // its beginning, MaxOutput bytes at most
}

// MaxOutput is the maximum size of the output of a Check, in bytes.
const MaxOutput = 256

// Status is the health of a registration or of a check.
type Status string

// The statuses, from the best to the worst. The words are those of Consul.
const (
	Passing  Status = "passing"
	Warning  Status = "warning"
	Critical Status = "critical"
)

// Health returns the status of a registration. One without a status is passing: it has no checks, or a client of Nomad
// 2.0 wrote it.
func (r *Registration) Health() Status { return cmp.Or(r.Status, Passing) }

// Copy returns a copy that shares nothing with the registration.
func (r *Registration) Copy() *Registration {
	out := *r
	out.Tags, out.Meta, out.TaggedAddresses = slices.Clone(r.Tags), maps.Clone(r.Meta), maps.Clone(r.TaggedAddresses)
	if r.Weights != nil {
		weights := *r.Weights
		out.Weights = &weights
	}
	out.Checks = slices.Clone(r.Checks)
	for i, c := range r.Checks {
		check := *c
		out.Checks[i] = &check
	}
	return &out
}

// Instance is a registration with what callers need to know about its node.
type Instance struct {
	Registration
	NodeName    string
	NodeAddress string // the address at which others reach the node, or ""
	NodeStatus  string // such as "ready", or "" if the node does not exist
	// NodeMeta is the metadata of the node, for callers that may read nodes. Others get nil.
	NodeMeta map[string]string
}

// ID returns the ID of a registration. workload is the name of the task, or GroupWorkload. port is the
// label of the port as the job has it, perhaps empty. Source: compat/services-network.md, section 2.
func ID(alloc, workload, service, port string) string {
	return Prefix(alloc) + workload + "-" + service + "-" + port
}

// ErrNoRegistration is the error of a deletion of a service registration that does not exist. Clients of Nomad 2.0
// recognise the text.
var ErrNoRegistration error = &apierror.Coded{Code: 404, Message: "service registration not found"}

// Prefix returns the text with which the IDs of all registrations of an allocation begin.
func Prefix(alloc string) string { return "_nomad-task-" + alloc + "-" }

// GroupWorkload returns the workload name of the services of a group.
func GroupWorkload(group string) string { return "group-" + group }

// NamespaceServices lists the services of one namespace.
type NamespaceServices struct {
	Namespace string
	Services  []*ServiceStub
}

// ServiceStub is the name of a service with the tags of all its registrations.
type ServiceStub struct {
	ServiceName string
	Tags        []string
}

// Equal reports whether two registrations describe the same address. Tags are compared as sets; the indexes are not
// compared.
func (r *Registration) Equal(other *Registration) bool {
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
