package allocs

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// An identity is found by its owner and its name, whatever service name the node has set.
func TestIdentityOf(t *testing.T) {
	service := func(name, identity string) *nomad.Service {
		return &nomad.Service{Name: name, Identity: &nomad.WorkloadIdentity{Name: identity}}
	}
	alloc := &nomad.Allocation{Name: "j.g[0]", TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{
		Name: "g", Services: []*nomad.Service{service("web-${NOMAD_ALLOC_INDEX}", "web"), service("${HOME}", "home"), {Name: "plain"}},
		Tasks: []*nomad.Task{{Name: "t", Services: []*nomad.Service{service("db", "db")}, Identities: []*nomad.WorkloadIdentity{{Name: "aws"}}}},
	}}}}
	const task, svc = message.WorkloadTypeTask, message.WorkloadTypeService
	for _, c := range []struct {
		handle message.WIHandle
		reason string
	}{
		{message.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t", WorkloadType: task}, ""},
		{message.WIHandle{IdentityName: "web", WorkloadIdentifier: "web-${NOMAD_ALLOC_INDEX}", WorkloadType: svc,
			InterpolatedWorkloadIdentifier: "web-0"}, ""},
		{message.WIHandle{IdentityName: "web", WorkloadIdentifier: "web-${NOMAD_ALLOC_INDEX}", WorkloadType: svc,
			InterpolatedWorkloadIdentifier: "web-1"}, message.WIRejectionReasonServiceName},
		{message.WIHandle{IdentityName: "home", WorkloadIdentifier: "${HOME}", WorkloadType: svc,
			InterpolatedWorkloadIdentifier: "${HOME}"}, message.WIRejectionReasonServiceName},
		{message.WIHandle{IdentityName: "db", WorkloadIdentifier: "db", WorkloadType: svc}, ""},
		{message.WIHandle{IdentityName: "web", WorkloadIdentifier: "web-0", WorkloadType: svc}, message.WIRejectionReasonMissingIdentity},
		{message.WIHandle{IdentityName: "db", WorkloadIdentifier: "plain", WorkloadType: svc}, message.WIRejectionReasonMissingIdentity},
		{message.WIHandle{IdentityName: "db", WorkloadIdentifier: "t", WorkloadType: task}, message.WIRejectionReasonMissingIdentity},
		{message.WIHandle{IdentityName: "default", WorkloadIdentifier: "t", WorkloadType: task}, message.WIRejectionReasonMissingIdentity},
		{message.WIHandle{IdentityName: "aws", WorkloadIdentifier: "x", WorkloadType: task}, message.WIRejectionReasonMissingTask},
	} {
		find := &finder{state.New(nil).Snapshot(), "global", map[workload]*taskenv.Names{}}
		id, reason := find.identityOf(alloc, c.handle)
		if reason != c.reason || (id == nil) != (c.reason != "") || id != nil && id.Name != c.handle.IdentityName {
			t.Errorf("identityOf(%+v) = %+v, %q, want %q", c.handle, id, reason, c.reason)
		}
	}
}
