package server_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// asks returns a client's request for the identity "aws" of the task of each allocation.
func asks(n *fakeNode, allocs ...*nomad.Allocation) *message.AllocIdentitiesRequest {
	req := &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.jwt, AllowStale: true}}
	for _, a := range allocs {
		req.MinQueryIndex = max(req.MinQueryIndex, a.CreateIndex-1)
		req.Identities = append(req.Identities, &nomad.WorkloadIdentityRequest{AllocID: a.ID, WIHandle: nomad.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t"}})
	}
	return req
}

// Every server signs, even without a leader. It waits for allocations that its state does not
// have yet.
func TestEveryServerSigns(t *testing.T) {
	all := cluster(t, 3, nil)
	leader, followers := split(t, all)
	n := join(t, leader.RPCAddr())
	register(t, leader.Server, batchJob("b", 3))
	allocs := n.allocs(3)
	for _, m := range all {
		n.addr = m.RPCAddr()
		var out message.AllocIdentitiesResponse
		n.must("Alloc.SignIdentities", asks(n, allocs...), &out)
		if len(out.SignedIdentities) != 3 || len(out.Rejections) != 0 {
			t.Errorf("%s signed %d of 3, %v", m.Self().Name, len(out.SignedIdentities), out.Rejections)
		}
	}
	// An allocation that will never exist is refused at once.
	gone := &nomad.Allocation{ID: nomad.NewID(), CreateIndex: allocs[0].CreateIndex}
	var out message.AllocIdentitiesResponse
	began := time.Now()
	n.must("Alloc.SignIdentities", asks(n, gone, allocs[0]), &out)
	if len(out.SignedIdentities) != 1 || len(out.Rejections) != 1 || out.Rejections[0].Reason != nomad.WIRejectionReasonMissingAlloc || time.Since(began) > 45*time.Second {
		t.Errorf("with an unknown one %d were signed, %v after %v", len(out.SignedIdentities), out.Rejections, time.Since(began))
	}
	n.addr = leader.RPCAddr()
	n.report(nomad.AllocClientStatusComplete, allocs[0])
	n.addr = followers[0].RPCAddr()
	eventually(t, func() bool {
		out = message.AllocIdentitiesResponse{}
		n.must("Alloc.SignIdentities", asks(n, allocs[0]), &out)
		return len(out.SignedIdentities) == 0 && len(out.Rejections) == 1
	})

	leader.stop()
	followers[1].stop()
	out = message.AllocIdentitiesResponse{}
	n.must("Alloc.SignIdentities", asks(n, allocs[1]), &out)
	if len(out.SignedIdentities) != 1 {
		t.Errorf("the last server signed %d, %v", len(out.SignedIdentities), out.Rejections)
	}
}

// One allocation of another node makes the complete request fail, at any position.
func TestOnlyTheNodesOwnAreSigned(t *testing.T) {
	s, _ := start(t, nil)
	a := join(t, s.RPCAddr())
	register(t, s, batchJob("b", 1))
	own := a.allocs(1)[0]
	b := join(t, s.RPCAddr())
	for _, token := range []string{b.jwt, b.node.SecretID, own.SignedIdentities["t"], ""} {
		req := asks(a, own)
		req.AuthToken = token
		var out message.AllocIdentitiesResponse
		if err := b.call("Alloc.SignIdentities", req, &out); err == nil || len(out.SignedIdentities) != 0 {
			t.Errorf("another one got %d identities, %v", len(out.SignedIdentities), err)
		}
	}
}

// A new key signs only after every server can verify with it.
func TestNoServerRefusesANewKey(t *testing.T) {
	all := cluster(t, 3, func(c *server.Config) { c.GossipProbe = 2 * time.Second }) // servers that count as failed are not waited for
	leader, _ := split(t, all)
	n := join(t, leader.RPCAddr())
	job := batchJob("b", 1)
	job.TaskGroups[0].Tasks[0].Identities[0].Audience = []string{nomad.IdentityDefaultAud}
	register(t, leader.Server, job)
	alloc := n.allocs(1)[0]
	held := 0
	for i := range 10 {
		begun := time.Now()
		kid := rotate(t, all[i%3].Server, message.KeyringRotateRootKeyRequest{})
		late := time.Since(begun) > 2*time.Second // the rotation does not wait longer for a server that does not answer
		var token string
		eventually(t, func() bool { // the keyring follows state with a short delay
			var out message.AllocIdentitiesResponse
			n.must("Alloc.SignIdentities", asks(n, alloc), &out)
			token = out.SignedIdentities[0].JWT
			got, _ := kidOf(t, token)
			return got == kid
		})
		if late {
			continue
		}
		held++
		for _, m := range all {
			who := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: token, AllowStale: true}}
			if err := m.Call(within(t), "ACL.WhoAmI", who, &acls.WhoAmIResponse{}); err != nil {
				t.Errorf("rotation %d: %s refuses a token that was just signed: %v", i, m.Self().Name, err)
			}
		}
	}
	if held == 0 {
		t.Error("every rotation waited for a server in vain")
	}
	got := rootKeys(t, leader.Server)
	again := len(got[nomad.RootKeyStateInactive]) + len(got[nomad.RootKeyStatePrepublished]) - 10 // created when a leader was lost in the middle
	if len(got[nomad.RootKeyStateActive]) != 1 || len(got[nomad.RootKeyStatePrepublished]) > again {
		t.Errorf("keys are %v", got)
	}
}
