package nodeid_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/client/nodeid"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Once the node has an identity, every call uses it: heartbeats, pulls, updates and the calls
// of allocations.
func TestIdentity_UsedForEveryCall(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "10ms"})
	f.Place(a)
	f.Until(t, "the allocation is complete", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Renew", &message.NodeIdentityRenewReq{}, &message.NodeIdentityRenewResp{}); err != nil {
		t.Fatal(err)
	}
	f.Until(t, "the heartbeat uses the next identity", func() bool { return len(f.Proofs) > 4 && f.Forced > 0 })
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for i, proof := range f.Proofs {
		if !f.Tokens[proof] || proof == f.Node.SecretID {
			t.Errorf("call %d has no identity but %d bytes", i, len(proof))
		}
	}
}

// If the servers are upgraded last, the secret ID is used until they issue an identity.
func TestIdentity_OldServers(t *testing.T) {
	f := clienttest.StartServer(t)
	f.NoIdentities = true
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	<-n.Ready()
	secret := n.Node().SecretID
	a := clienttest.Alloc(map[string]any{"run_for": "10ms"})
	f.Place(a)
	f.Until(t, "the allocation is complete", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
	f.Mu.Lock()
	for i, proof := range f.Proofs {
		if proof != secret {
			t.Errorf("call %d has %d bytes, want the secret ID", i, len(proof))
		}
	}
	f.Mu.Unlock()
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Get", &message.NodeIdentityGetReq{}, &message.NodeIdentityGetResp{}); err == nil {
		t.Error("there is an identity that was not issued")
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	f.Edit(func() { f.Registers = nil })
	n = clienttest.Start(t, n.Cfg) // still without an identity: the secret ID is used
	<-n.Ready()
	f.Edit(func() {
		if len(f.Registers) != 1 || f.Registers[0] != secret {
			t.Errorf("the restarted agent registers with %q", f.Registers)
		}
		f.NoIdentities = false // after the upgrade of the servers
	})
	f.Until(t, "the node has an identity", func() bool { return len(f.Proofs) > 0 && f.Proofs[len(f.Proofs)-1] != secret })
	n.Claims(t)
}

// If the identity expires while no server answers, the node registers again when one does. Its
// tasks keep running.
func TestIdentity_Expired(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	before := n.Claims(t)["jti"]
	var expired string
	known := 0
	f.Edit(func() {
		for token := range f.Tokens {
			expired = token
		}
		clear(f.Tokens)
		f.NotReady, known = errors.New("not now"), len(f.Registers)
	})
	tried := f.Tries.Load()
	testpace.Until(t, "it tries to register", func() bool { return f.Tries.Load() > tried+3 })
	f.Edit(func() { f.NotReady = nil })
	testpace.Until(t, "it has another identity", func() bool { return n.Claims(t)["jti"] != before })
	updates := 0
	f.Edit(func() {
		if f.Registers[known] != expired {
			t.Error("the registration does not use the expired identity")
		}
		updates = f.Updates
	})
	again := clienttest.Alloc(map[string]any{"run_for": "10ms"})
	f.Place(again)
	f.Until(t, "another allocation is complete", func() bool { return f.Status(again) == nomad.AllocClientStatusComplete })
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if states := f.Updated[a.ID].TaskStates["main"]; f.Status(a) != nomad.AllocClientStatusRunning || states.Restarts > 0 ||
		f.Updates == updates {
		t.Errorf("the allocation that ran is %s, its task %+v", f.Status(a), states)
	}
}

// A registered node with one of its files missing does not start. With both missing it is a new
// node.
func TestIdentity_LostID(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	<-n.Ready()
	before := n.Node().ID
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Join(n.Cfg.StateDir, "client-id"), filepath.Join(n.Cfg.StateDir, "secret-id")}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.Remove(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.New(n.Cfg, client.Parts{Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, nodeid.ErrNoID) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("New() without %s = %v, want %v", name, err, nodeid.ErrNoID)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	same := clienttest.Start(t, n.Cfg)
	if <-same.Ready(); same.Node().ID != before {
		t.Errorf("the node with its files is %s, want %s", same.Node().ID, before)
	}
	if err := same.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if other := clienttest.Start(t, n.Cfg); other.Node().ID == before {
		t.Error("the node without its files has its old ID")
	}
}

// The servers refuse the token, and the introduction token was already used: the node sends its
// secret.
func TestIdentity_RefusedCredential(t *testing.T) {
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.IntroToken = "intro"
	n := clienttest.Start(t, cfg)
	<-n.Ready()
	var token string
	f.Edit(func() {
		for known := range f.Tokens {
			token = known
		}
		clear(f.Tokens) // as in a state without the key
		f.Refuse = []string{token, "intro"}
	})
	f.Until(t, "the node is back", func() bool {
		return len(f.Registers) == 2 && len(f.Tokens) == 1 && f.NodeStatus == nomad.NodeStatusReady
	})
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if !slices.Equal(f.Refused, []string{token, "intro"}) || f.Registers[1] != "" {
		t.Errorf("%d registrations were refused, the accepted one had %d bytes", len(f.Refused), len(f.Registers[1]))
	}
}

// A node that was never registered keeps sending its introduction token.
func TestIntroduction_Kept(t *testing.T) {
	f := clienttest.StartServer(t)
	f.Refuse = []string{"intro"}
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.IntroToken = "intro"
	n := clienttest.Start(t, cfg)
	f.Until(t, "the node was refused", func() bool { return len(f.Refused) >= 4 })
	f.Edit(func() { f.Refuse = nil })
	<-n.Ready()
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Registers[0] != "intro" {
		t.Error("it registered without an introduction token")
	}
}

// A restarted node keeps its ID and sends its stored token.
func TestIdentity_Restart(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	<-n.Ready()
	id := n.NodeID()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n = clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	<-n.Ready()
	if n.NodeID() != id {
		t.Errorf("node ID %s became %s", id, n.NodeID())
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if last := f.Registers[len(f.Registers)-1]; !f.Tokens[last] {
		t.Error("the second registration does not carry the stored token")
	}
}

func TestIntroduction(t *testing.T) {
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.IntroToken = "intro"
	n := clienttest.Start(t, cfg)
	<-n.Ready()
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Registers[0] != "intro" {
		t.Error("the first registration does not carry the introduction token")
	}
}

func TestRenewal(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	<-n.Ready()
	before := n.Claims(t)["jti"]
	if exp := n.Claims(t)["exp"]; exp != int64(1_795_345_970) {
		t.Errorf("exp = %v (%T), want an integer", exp, exp)
	}
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Renew", &message.NodeIdentityRenewReq{}, &message.NodeIdentityRenewResp{}); err != nil {
		t.Fatal(err)
	}
	f.Until(t, "a new token is used", func() bool { return n.Claims(t)["jti"] != before })
}

// A request for renewal survives a restart of the agent, until a new identity arrives.
func TestRenewal_Restart(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	<-n.Ready()
	before := n.Claims(t)["jti"]
	f.Edit(func() { f.IgnoreRenewal = true })
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Renew", &message.NodeIdentityRenewReq{}, &message.NodeIdentityRenewResp{}); err != nil {
		t.Fatal(err)
	}
	f.Until(t, "it requests a renewal", func() bool { return f.Forced > 0 })
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	f.Edit(func() { f.Forced, f.KeepTokens = 0, true })
	again := clienttest.Start(t, n.Cfg)
	f.Until(t, "the next agent requests a renewal", func() bool { return f.Forced > 0 })
	if got := again.Claims(t)["jti"]; got != before {
		t.Fatalf("the identity changed to %valthough none was issued", got)
	}
	f.Edit(func() { f.IgnoreRenewal = false })
	testpace.Until(t, "it has a new identity", func() bool { return again.Claims(t)["jti"] != before })
	if err := again.Stop(); err != nil {
		t.Fatal(err)
	}
	f.Edit(func() { f.Forced = 0 })
	last := clienttest.Start(t, n.Cfg)
	<-last.Ready()
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Forced != 0 {
		t.Error("an agent with a new identity requests another")
	}
}
