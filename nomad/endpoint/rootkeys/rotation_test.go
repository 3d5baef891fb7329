package rootkeys_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// After a rotation the new key signs. The old one verifies while a token of it is valid.
func TestRotation_OldKeyVerifies(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	first := servertest.RootKeys(t, s)[rootkey.Active][0]
	second := servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{})
	if got := servertest.RootKeys(t, s); len(got[rootkey.Active]) != 1 || got[rootkey.Active][0] != second ||
		got[rootkey.Inactive][0] != first {
		t.Errorf("after a rotation the keys are %v", got)
	}
	var renewed message.NodeUpdateResponse
	servertest.Eventually(t, func() bool {
		renewed = n.Heartbeat(n.JWT, true) // the token of the old key is valid
		kid, _ := servertest.KeyOf(t, *renewed.SignedIdentity)
		return kid == second
	})
	n.JWT = *renewed.SignedIdentity
	remove := func(id string, force bool) error {
		return s.Call(servertest.Context(t), "Keyring.Delete",
			&message.KeyringDeleteRootKeyRequest{KeyID: id, Force: force, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	}
	other := servertest.Join(t, s.RPCAddr())
	if err := remove(second, true); err == nil {
		t.Error("the active key is removed")
	}
	third := servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{})
	if err := remove(first, false); err != nil {
		t.Errorf("an unused key: %v", err)
	}
	if err := remove(second, false); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a key in use by two nodes: %v", err)
	}
	if err := remove(second, true); err != nil {
		t.Errorf("by force: %v", err)
	}
	// Its tokens are refused at once. The secret ID gets a new one.
	servertest.Eventually(t, func() bool {
		err := other.Call("Node.UpdateStatus",
			&message.NodeUpdateStatusRequest{NodeID: other.Node.ID, Status: nomad.NodeStatusReady, WriteRequest: other.Write(other.JWT)}, nil)
		return errors.Is(err, apierror.ErrPermissionDenied)
	})
	if kid, _ := servertest.KeyOf(t, *other.Heartbeat(other.Node.SecretID, false).SignedIdentity); kid != third {
		t.Errorf("the new identity is of key %s, want %s", kid, third)
	}
}

func TestRotation_Requests(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	active := servertest.RootKeys(t, s)[rootkey.Active][0]
	for name, req := range map[string]rpc.Request{
		"full and published": &message.KeyringRotateRootKeyRequest{Full: true, PublishTime: 5},
		"published before":   &message.KeyringRotateRootKeyRequest{PublishTime: -5},
		"another algorithm":  &message.KeyringRotateRootKeyRequest{Algorithm: "rot13"},
		"no key":             &message.KeyringUpdateRootKeyRequest{},
		"a key with material": &message.KeyringUpdateRootKeyRequest{RootKey: &rootkey.Unwrapped{Meta: &rootkey.Meta{KeyID: active,
			State: "inactive"}, Key: make([]byte, 32)}},
		"an invalid transition": &message.KeyringUpdateRootKeyRequest{RootKey: &rootkey.Unwrapped{Meta: &rootkey.Meta{KeyID: active,
			State: "inactive"}}},
		"an unknown key": &message.KeyringUpdateRootKeyRequest{RootKey: &rootkey.Unwrapped{Meta: &rootkey.Meta{KeyID: nomad.NewID(),
			State: "active"}}},
	} {
		method := "Keyring.Rotate"
		if _, update := req.(*message.KeyringUpdateRootKeyRequest); update {
			method = "Keyring.Update"
		}
		req.(interface{ Write() *message.WriteRequest }).Write().Region = "global"
		var coded *apierror.Coded
		if err := s.Call(servertest.Context(t), method, req, nil); !errors.As(err, &coded) || coded.Code/100 != 4 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := servertest.RootKeys(t, s); len(got) != 1 {
		t.Errorf("keys are %v", got)
	}
}

// A prepublished key becomes active at its time. A full rotation ends without further requests.
func TestRotation_PublishedKeySigns(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.RootKeyGCInterval = 20 * time.Millisecond })
	next := servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{PublishTime: time.Now().Add(time.Hour).UnixNano()})
	if got := servertest.RootKeys(t, s)[rootkey.Prepublished]; len(got) != 1 || got[0] != next {
		t.Errorf("published keys are %v", got)
	}
	servertest.Eventually(t, func() bool { // verifiers see it
		return len(servertest.Read[message.KeyringListPublicResponse](t, s, "Keyring.ListPublic",
			&message.GenericRequest{QueryOptions: servertest.Global}).PublicKeys) == 2
	})
	due := servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{PublishTime: time.Now().UnixNano()})
	servertest.Eventually(t, func() bool { return servertest.RootKeys(t, s)[rootkey.Active][0] == due })
	full := servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{Full: true})
	servertest.Eventually(t, func() bool {
		got := servertest.RootKeys(t, s)
		return got[rootkey.Active][0] == full && len(got[rootkey.Rekeying]) == 0 && len(got[rootkey.Inactive]) == 2
	})
}

// The first identity with RS256 creates a second key, which stays while it is needed. All other
// identities are signed with EdDSA.
func TestRotation_RS256(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	job := servertest.BatchJob("legacy", 1)
	job.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{
		{Name: "old", Audience: []string{"old.example"}, Alg: nomad.IdentityAlgRS256},
		{Name: "new", Audience: []string{"new.example"}},
	}
	servertest.Register(t, s, job)
	alloc := n.Allocs(1)[0]
	sign := func() map[string]string {
		t.Helper()
		var out message.AllocIdentitiesResponse
		req := &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT}}
		for _, name := range []string{"old", "new"} {
			req.Identities = append(req.Identities,
				&message.WorkloadIdentityRequest{AllocID: alloc.ID, WIHandle: message.WIHandle{IdentityName: name, WorkloadIdentifier: "t"}})
		}
		n.Must("Alloc.SignIdentities", req, &out)
		tokens := map[string]string{}
		for _, id := range out.SignedIdentities {
			tokens[id.IdentityName] = id.JWT
		}
		return tokens
	}
	tokens := sign()
	oldKid, oldAlg := servertest.KeyOf(t, tokens["old"])
	newKid, newAlg := servertest.KeyOf(t, tokens["new"])
	if oldAlg != "RS256" || newAlg != "EdDSA" || oldKid == newKid {
		t.Errorf("signed %s by %s and %s by %s", oldAlg, oldKid, newAlg, newKid)
	}
	if kid, alg := servertest.KeyOf(t, alloc.SignedIdentities["t"]); alg != "EdDSA" || kid != alloc.SigningKeyID {
		t.Errorf("the default identity is signed %s by %s", alg, kid)
	}
	algs := map[string]string{} // both have signed, so verifiers see them
	for _, k := range servertest.Read[message.KeyringListPublicResponse](t, s, "Keyring.ListPublic",
		&message.GenericRequest{QueryOptions: servertest.Global}).PublicKeys {
		algs[k.KeyID] = k.Algorithm
	}
	if len(algs) != 2 || algs[oldKid] != "RS256" || algs[newKid] != "EdDSA" {
		t.Errorf("verifiers see %v", algs)
	}
	remove := func() error {
		return s.Call(servertest.Context(t), "Keyring.Delete",
			&message.KeyringDeleteRootKeyRequest{KeyID: oldKid, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	}
	if err := remove(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the key that signs RS256 is removed: %v", err)
	}
	servertest.Register(t, s, servertest.BatchJob("other", 1)) // it requests no identity
	if got := servertest.RootKeys(t, s); len(got[rootkey.Inactive]) != 1 {
		t.Errorf("keys are %v", got)
	}
	servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{})
	servertest.Eventually(t, func() bool {
		kid, alg := servertest.KeyOf(t, sign()["old"])
		return alg == "RS256" && kid != oldKid
	})
	if err := remove(); err == nil {
		t.Error("a key with valid tokens is removed")
	}
	n.Report(nomad.AllocClientStatusComplete, alloc)
	servertest.Eventually(t, func() bool { return remove() == nil })

	bad := servertest.BatchJob("bad", 1)
	bad.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{{Name: "x", Alg: "none"}}
	err := s.Call(servertest.Context(t), "Job.Register",
		&message.JobRegisterRequest{Job: bad, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	if err == nil || !strings.Contains(err.Error(), `alg "none"`) {
		t.Errorf("a job with alg none: %v", err)
	}
}
