package server_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestServer_PlacesWithIdentity(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	reg := servertest.Register(t, s, servertest.BatchJob("b", 2))
	if reg.EvalID == "" || reg.JobModifyIndex == 0 {
		t.Fatalf("Job.Register = %+v", reg)
	}
	allocs := n.Allocs(2)
	for _, a := range allocs {
		token := a.SignedIdentities["t"]
		if a.NodeID != n.Node.ID || token == "" || a.SigningKeyID == "" {
			t.Fatalf("allocation on %s has identities of %d tasks", a.NodeID, len(a.SignedIdentities))
		}
		who := servertest.Read[message.ACLWhoAmIResponse](t, s, "ACL.WhoAmI",
			&message.GenericRequest{QueryOptions: message.QueryOptions{AuthToken: token}})
		c := who.Identity.Claims
		if c == nil || c.WorkloadIdentityClaims == nil {
			t.Fatalf("the token has %+v, want claims of a workload", who.Identity)
		}
		servertest.Equal(t, "allocation of the token", c.AllocationID, a.ID)
		servertest.Equal(t, "task of the token", c.TaskName, "t")
	}
	var signed message.AllocIdentitiesResponse
	ask := &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{AuthToken: n.JWT, MinQueryIndex: allocs[0].CreateIndex - 1},
		Identities: []*message.WorkloadIdentityRequest{
			{AllocID: allocs[0].ID, WIHandle: message.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t"}},
			{AllocID: allocs[0].ID, WIHandle: message.WIHandle{IdentityName: "gcp", WorkloadIdentifier: "t"}},
		}}
	n.Must("Alloc.SignIdentities", ask, &signed)
	if len(signed.SignedIdentities) != 1 || signed.SignedIdentities[0].JWT == "" || signed.SignedIdentities[0].Expiration.IsZero() ||
		len(signed.Rejections) != 1 || signed.Rejections[0].Reason != message.WIRejectionReasonMissingIdentity {
		t.Errorf("Alloc.SignIdentities: %d signed, %+v", len(signed.SignedIdentities), signed.Rejections)
	}

	n.Report(nomad.AllocClientStatusRunning, allocs...)
	n.Report(nomad.AllocClientStatusComplete, allocs...)
	// The evaluation may still be in progress: the job is dead when it has ended too.
	servertest.Eventually(t, func() bool {
		return servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("b")).Job.Status == nomad.JobStatusDead
	})
	// A token is invalid as soon as its allocation has ended.
	err := s.Call(servertest.Context(t), "ACL.WhoAmI",
		&message.GenericRequest{QueryOptions: message.QueryOptions{AuthToken: allocs[0].SignedIdentities["t"]}}, nil)
	if !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("the token of an ended allocation: %v, want permission denied", err)
	}
}
