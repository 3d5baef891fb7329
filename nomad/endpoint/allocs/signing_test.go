package allocs_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// asks returns a client's request for the identity "aws" of the task of each allocation.
func asks(n *servertest.FakeNode, allocs ...*nomad.Allocation) *message.AllocIdentitiesRequest {
	req := &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT, AllowStale: true}}
	for _, a := range allocs {
		req.MinQueryIndex = max(req.MinQueryIndex, a.CreateIndex-1)
		req.Identities = append(req.Identities,
			&message.WorkloadIdentityRequest{AllocID: a.ID, WIHandle: message.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t"}})
	}
	return req
}

// Every server signs, even without a leader. It waits for allocations that its state does not
// have yet.
func TestSigning_EveryServer(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	leader, followers := servertest.Split(t, all)
	n := servertest.Join(t, leader.RPCAddr())
	servertest.Register(t, leader.Server, servertest.BatchJob("b", 3))
	allocs := n.Allocs(3)
	for _, m := range all {
		n.Addr = m.RPCAddr()
		var out message.AllocIdentitiesResponse
		n.Must("Alloc.SignIdentities", asks(n, allocs...), &out)
		if len(out.SignedIdentities) != 3 || len(out.Rejections) != 0 {
			t.Errorf("%s signed %d of 3, %v", m.Self().Name, len(out.SignedIdentities), out.Rejections)
		}
	}
	// An allocation that will never exist is refused at once.
	gone := &nomad.Allocation{ID: nomad.NewID(), CreateIndex: allocs[0].CreateIndex}
	var out message.AllocIdentitiesResponse
	began := time.Now()
	n.Must("Alloc.SignIdentities", asks(n, gone, allocs[0]), &out)
	if len(out.SignedIdentities) != 1 || len(out.Rejections) != 1 || out.Rejections[0].Reason != message.WIRejectionReasonMissingAlloc ||
		time.Since(began) > 45*time.Second {
		t.Errorf("with an unknown one %d were signed, %v after %v", len(out.SignedIdentities), out.Rejections, time.Since(began))
	}
	n.Addr = leader.RPCAddr()
	n.Report(nomad.AllocClientStatusComplete, allocs[0])
	n.Addr = followers[0].RPCAddr()
	servertest.Eventually(t, func() bool {
		out = message.AllocIdentitiesResponse{}
		n.Must("Alloc.SignIdentities", asks(n, allocs[0]), &out)
		return len(out.SignedIdentities) == 0 && len(out.Rejections) == 1
	})

	leader.Stop()
	followers[1].Stop()
	out = message.AllocIdentitiesResponse{}
	n.Must("Alloc.SignIdentities", asks(n, allocs[1]), &out)
	if len(out.SignedIdentities) != 1 {
		t.Errorf("the last server signed %d, %v", len(out.SignedIdentities), out.Rejections)
	}
}

// One allocation of another node makes the complete request fail, at any position.
func TestSigning_OwnAllocsOnly(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	a := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	own := a.Allocs(1)[0]
	b := servertest.Join(t, s.RPCAddr())
	for _, token := range []string{b.JWT, b.Node.SecretID, own.SignedIdentities["t"], ""} {
		req := asks(a, own)
		req.AuthToken = token
		var out message.AllocIdentitiesResponse
		if err := b.Call("Alloc.SignIdentities", req, &out); err == nil || len(out.SignedIdentities) != 0 {
			t.Errorf("another one got %d identities, %v", len(out.SignedIdentities), err)
		}
	}
}

// A new key signs only after every server can verify with it.
func TestSigning_NewKeyIsAccepted(t *testing.T) {
	all := servertest.Cluster(t, 3,
		func(c *server.Config) { c.GossipProbe = 2 * time.Second }) // servers that count as failed are not waited for
	leader, _ := servertest.Split(t, all)
	n := servertest.Join(t, leader.RPCAddr())
	job := servertest.BatchJob("b", 1)
	job.TaskGroups[0].Tasks[0].Identities[0].Audience = []string{nomad.IdentityDefaultAud}
	servertest.Register(t, leader.Server, job)
	alloc := n.Allocs(1)[0]
	held := 0
	for i := range 10 {
		begun := time.Now()
		kid := servertest.Rotate(t, all[i%3].Server, message.KeyringRotateRootKeyRequest{})
		late := time.Since(begun) > 2*time.Second // the rotation does not wait longer for a server that does not answer
		var token string
		servertest.Eventually(t, func() bool { // the keyring follows state with a short delay
			var out message.AllocIdentitiesResponse
			n.Must("Alloc.SignIdentities", asks(n, alloc), &out)
			token = out.SignedIdentities[0].JWT
			got, _ := servertest.KeyOf(t, token)
			return got == kid
		})
		if late {
			continue
		}
		held++
		for _, m := range all {
			who := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: token, AllowStale: true}}
			if err := m.Call(servertest.Context(t), "ACL.WhoAmI", who, &message.ACLWhoAmIResponse{}); err != nil {
				t.Errorf("rotation %d: %s refuses a token that was just signed: %v", i, m.Self().Name, err)
			}
		}
	}
	if held == 0 {
		t.Error("every rotation waited for a server in vain")
	}
	got := servertest.RootKeys(t, leader.Server)
	again := len(got[rootkey.Inactive]) +
		len(got[rootkey.Prepublished]) - 10 // created when a leader was lost in the middle
	if len(got[rootkey.Active]) != 1 || len(got[rootkey.Prepublished]) > again {
		t.Errorf("keys are %v", got)
	}
}

// A colon in an ID does not make the subjects of two jobs equal.
func TestSigning_SubjectsDiffer(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	subjects := map[string]string{"a:g:t": "global:default:a%3Ag%3At:g:t:default", "a%3Ag": "global:default:a%253Ag:g:t:default",
		"a": "global:default:a:g:t:default"}
	for id := range subjects {
		servertest.Register(t, s, servertest.BatchJob(id, 1))
	}
	for _, a := range n.Allocs(len(subjects)) {
		if got := servertest.Claims(t, a.SignedIdentities["t"])["sub"]; got != subjects[a.JobID] {
			t.Errorf("the subject of %s is %v, want %s", a.JobID, got, subjects[a.JobID])
		}
	}
}
