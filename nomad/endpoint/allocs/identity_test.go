package allocs

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// An identity is found by its owner and its name, whatever service name the node has set.
func TestIdentityOf(t *testing.T) {
	service := func(name, identity string) *nomad.Service {
		return &nomad.Service{Name: name, Identity: &nomad.WorkloadIdentity{Name: identity}}
	}
	alloc := &nomad.Allocation{TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{
		Name: "g", Services: []*nomad.Service{service("web-${NOMAD_ALLOC_INDEX}", "web"), {Name: "plain"}},
		Tasks: []*nomad.Task{{Name: "t", Services: []*nomad.Service{service("db", "db")}, Identities: []*nomad.WorkloadIdentity{{Name: "aws"}}}},
	}}}}
	const task, svc = nomad.WorkloadTypeTask, nomad.WorkloadTypeService
	for _, c := range []struct {
		handle nomad.WIHandle
		reason string
	}{
		{nomad.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t", WorkloadType: task}, ""},
		{nomad.WIHandle{IdentityName: "web", WorkloadIdentifier: "web-${NOMAD_ALLOC_INDEX}", WorkloadType: svc,
			InterpolatedWorkloadIdentifier: "web-0"}, ""},
		{nomad.WIHandle{IdentityName: "db", WorkloadIdentifier: "db", WorkloadType: svc}, ""},
		{nomad.WIHandle{IdentityName: "web", WorkloadIdentifier: "web-0", WorkloadType: svc}, nomad.WIRejectionReasonMissingIdentity},
		{nomad.WIHandle{IdentityName: "db", WorkloadIdentifier: "plain", WorkloadType: svc}, nomad.WIRejectionReasonMissingIdentity},
		{nomad.WIHandle{IdentityName: "db", WorkloadIdentifier: "t", WorkloadType: task}, nomad.WIRejectionReasonMissingIdentity},
		{nomad.WIHandle{IdentityName: "default", WorkloadIdentifier: "t", WorkloadType: task}, nomad.WIRejectionReasonMissingIdentity},
		{nomad.WIHandle{IdentityName: "aws", WorkloadIdentifier: "x", WorkloadType: task}, nomad.WIRejectionReasonMissingTask},
	} {
		id, reason := identityOf(alloc, c.handle)
		if reason != c.reason || (id == nil) != (c.reason != "") || id != nil && id.Name != c.handle.IdentityName {
			t.Errorf("identityOf(%+v) = %+v, %q, want %q", c.handle, id, reason, c.reason)
		}
	}
}
