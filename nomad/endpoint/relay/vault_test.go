package relay_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// A compromised node reports tokens of other nodes, jobs and tasks, without end, with escape sequences, and with times that
// JSON does not have. Its caller gets one printable status for each of its tasks that has a vault block.
func TestVaultTokens_HostileNode(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Vault = vault.Clusters{vault.DefaultCluster: {Enabled: true}} })
	n := servertest.Join(t, s.RPCAddr())
	n.Node.Attributes["vault.version"] = "1.20.0"
	if err := n.Register(n.JWT); err != nil {
		t.Fatal(err)
	}
	n.Heartbeat(n.JWT, false)
	job := servertest.BatchJob("b", 1)
	tasks := job.TaskGroups[0].Tasks
	tasks[0].Vault = &nomad.Vault{}
	servertest.Register(t, s, job)
	own := n.Allocs(1)[0]
	n.Pool.Close()

	far := time.Date(1e6, 1, 1, 0, 0, 0, 0, time.UTC)
	hostile := func(alloc, task string) *message.VaultTokenStatus {
		return &message.VaultTokenStatus{Namespace: "secret", JobID: "victim", AllocID: alloc, Task: task, Cluster: "\x1b[2J",
			Role: strings.Repeat("\x1b[2Jrole", 100000), Error: strings.Repeat("a\nb\u202e", 100000), Lease: -1, Expires: far, NextRenewal: far, ErrorAt: far}
	}
	var all []*message.VaultTokenStatus
	for range 20 {
		all = append(all, nil, hostile(own.ID, tasks[0].Name), hostile(own.ID, "none"), hostile(own.ID, "\x1b[2J"),
			hostile("", "web"), hostile(nomad.NewID(), tasks[0].Name))
	}
	client, err := rpc.NewServer(rpc.Config{Auth: rpc.TrustPeer{}, Methods: []rpc.Method{rpc.Handle("VaultTokens.List", rpc.Token, rpc.Here,
		func(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.VaultTokensResponse, error) {
			return &message.VaultTokensResponse{Tokens: all}, nil
		}).Needs(rpc.AnyToken)}})
	if err != nil {
		t.Fatal(err)
	}
	s.AttachNode(n.Node.ID, client)
	got := servertest.Read[message.VaultTokensResponse](t, s, "VaultTokens.List", &message.NodeSpecificRequest{NodeID: n.Node.ID})
	if len(got.Tokens) != 1 {
		t.Fatalf("%d tokens, want 1", len(got.Tokens))
	}
	text, err := json.Marshal(got.Tokens)
	if err != nil {
		t.Fatalf("the answer cannot be encoded: %v", err)
	}
	one := got.Tokens[0]
	if one.JobID != "b" || one.Namespace != nomad.DefaultNamespace || one.Cluster != vault.DefaultCluster || one.Lease != 0 || !one.Expires.IsZero() {
		t.Errorf("token = %.300s", text)
	}
	if len(text) > 4<<10 || strings.ContainsFunc(one.Role+one.Error, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%d bytes: %.300q", len(text), text)
	}
}
