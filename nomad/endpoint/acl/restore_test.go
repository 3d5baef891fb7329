package acl_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// restoredWith restores the server to its current state with additional records.
func restoreWith(g *servertest.ACLServer, records ...[]byte) {
	g.Helper()
	state := servertest.State(g.T, g.Server)
	for _, r := range records {
		state = append(state, r...)
	}
	meta := &raft.SnapshotMeta{Version: 1, ID: "2-9000-1", Index: 9000, Term: 2, Size: int64(len(state)), Peers: []byte{0x90},
		Configuration: raft.Configuration{Servers: []raft.Server{{ID: "s1", Address: "127.0.0.1:4647"}}}, ConfigurationIndex: 1}
	var raw bytes.Buffer
	if _, err := snapshot.Write(&raw, meta, bytes.NewReader(state)); err != nil {
		g.Fatal(err)
	}
	a, err := snapshot.Open(&raw, g.TempDir())
	if err != nil {
		g.Fatal(err)
	}
	defer a.Close()
	if err := a.Check(); err != nil {
		g.Fatalf("the archive is refused: %v", err)
	}
	if err := g.Server.Restore(servertest.Context(g.T), a); err != nil {
		g.Fatal(err)
	}
}

// An unreadable policy in an archive denies everything to its holders until it is written
// again. Other callers are not affected.
func TestPolicy_UnreadableDenies(t *testing.T) {
	g := servertest.StartACL(t, nil)
	for _, name := range []string{"good", "bad"} {
		g.CreatePolicy(name, "default", nil)
	}
	first := g.CreateRole(&rbac.Role{Name: "r", Policies: servertest.PolicyLinks("bad")})
	direct, byRole, other := g.CreateToken(servertest.ClientToken("good",
		"bad")), servertest.ClientToken("good"), g.CreateToken(servertest.ClientToken("good"))
	byRole.Roles = []*rbac.TokenRoleLink{{ID: first.ID}}
	byRole = g.CreateToken(byRole)
	jobs := func(secret string) error { return g.Call(secret, "Job.List", &message.JobListRequest{}, nil) }
	for _, secret := range []string{direct.SecretID, byRole.SecretID, other.SecretID} {
		if err := jobs(secret); err != nil {
			t.Fatal(err)
		}
	}
	twice, err := codec.Encode(&rbac.Policy{Name: "bad",
		Rules: "namespace \"default\" { policy = \"read\" }\nnamespace \"default\" { policy = \"deny\" }"})
	if err != nil {
		t.Fatal(err)
	}
	restoreWith(g, append([]byte{11}, twice...))
	for who, secret := range map[string]string{"direct": direct.SecretID, "by a role": byRole.SecretID} {
		if err := jobs(secret); !errors.Is(err, apierror.ErrPermissionDenied) || !strings.Contains(err.Error(), `"bad" cannot be parsed`) {
			t.Errorf("%s: %v", who, err)
		}
	}
	if err := jobs(other.SecretID); err != nil {
		t.Errorf("callers without it: %v", err)
	}
	var out message.SingleACLPolicyResponse
	g.Must("ACL.GetPolicy", &message.ACLPolicySpecificRequest{Name: "bad"}, &out)
	if out.Policy == nil || !strings.Contains(out.Policy.Rules, "deny") || out.Policy.RulesJSON != nil {
		t.Errorf("it is shown as %+v", out.Policy)
	}
	if _, err := g.Bootstrap(""); !servertest.IsCoded(err, 400, "ACL bootstrap already done") {
		t.Errorf("after a restore ACL bootstrap succeeds: %v", err)
	}
	g.CreatePolicy("bad", "default", nil)
	if err := jobs(direct.SecretID); err != nil {
		t.Errorf("once it is written again: %v", err)
	}
}
