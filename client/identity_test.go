package client_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/nodeid"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Once the node has an identity, every call uses it: heartbeats, pulls, updates and the calls
// of allocations.
func TestIdentityIsUsedForEveryCall(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "10ms"})
	f.place(a)
	f.until(t, "the allocation is complete", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Renew", &message.NodeIdentityRenewReq{}, &message.NodeIdentityRenewResp{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "the heartbeat uses the next identity", func() bool { return len(f.proofs) > 4 && f.forced > 0 })
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, proof := range f.proofs {
		if !f.tokens[proof] || proof == f.node.SecretID {
			t.Errorf("call %d has no identity but %d bytes", i, len(proof))
		}
	}
}

// If the servers are upgraded last, the secret ID is used until they issue an identity.
func TestServersWithoutIdentities(t *testing.T) {
	f := startServer(t)
	f.noIdentities = true
	n := start(t, config(nodeDir(t), f.addr()))
	<-n.Ready()
	secret := n.Node().SecretID
	a := alloc(map[string]any{"run_for": "10ms"})
	f.place(a)
	f.until(t, "the allocation is complete", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
	f.mu.Lock()
	for i, proof := range f.proofs {
		if proof != secret {
			t.Errorf("call %d has %d bytes, want the secret ID", i, len(proof))
		}
	}
	f.mu.Unlock()
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Get", &message.NodeIdentityGetReq{}, &message.NodeIdentityGetResp{}); err == nil {
		t.Error("there is an identity that was not issued")
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	f.edit(func() { f.registers = nil })
	n = start(t, n.cfg) // still without an identity: the secret ID is used
	<-n.Ready()
	f.edit(func() {
		if len(f.registers) != 1 || f.registers[0] != secret {
			t.Errorf("the restarted agent registers with %q", f.registers)
		}
		f.noIdentities = false // after the upgrade of the servers
	})
	f.until(t, "the node has an identity", func() bool { return len(f.proofs) > 0 && f.proofs[len(f.proofs)-1] != secret })
	claims(t, n)
}

// If the identity expires while no server answers, the node registers again when one does. Its
// tasks keep running.
func TestExpiredIdentityIsReplaced(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "the allocation runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	before := claims(t, n)["jti"]
	var expired string
	known := 0
	f.edit(func() {
		for token := range f.tokens {
			expired = token
		}
		clear(f.tokens)
		f.notReady, known = errors.New("not now"), len(f.registers)
	})
	tried := f.tries.Load()
	testpace.Until(t, "it tries to register", func() bool { return f.tries.Load() > tried+3 })
	f.edit(func() { f.notReady = nil })
	testpace.Until(t, "it has another identity", func() bool { return claims(t, n)["jti"] != before })
	updates := 0
	f.edit(func() {
		if f.registers[known] != expired {
			t.Error("the registration does not use the expired identity")
		}
		updates = f.updates
	})
	again := alloc(map[string]any{"run_for": "10ms"})
	f.place(again)
	f.until(t, "another allocation is complete", func() bool { return status(f, again) == nomad.AllocClientStatusComplete })
	f.mu.Lock()
	defer f.mu.Unlock()
	if states := f.updated[a.ID].TaskStates["main"]; status(f, a) != nomad.AllocClientStatusRunning || states.Restarts > 0 || f.updates == updates {
		t.Errorf("the allocation that ran is %s, its task %+v", status(f, a), states)
	}
}

// A registered node with one of its files missing does not start. With both missing it is a new
// node.
func TestLostNodeID(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	<-n.Ready()
	before := n.Node().ID
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Join(n.cfg.StateDir, "client-id"), filepath.Join(n.cfg.StateDir, "secret-id")}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.Remove(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.New(n.cfg, client.Parts{Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, nodeid.ErrNoID) || !strings.Contains(err.Error(), name) {
			t.Errorf("New() without %s = %v, want %v", name, err, nodeid.ErrNoID)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	same := start(t, n.cfg)
	if <-same.Ready(); same.Node().ID != before {
		t.Errorf("the node with its files is %s, want %s", same.Node().ID, before)
	}
	if err := same.stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if other := start(t, n.cfg); other.Node().ID == before {
		t.Error("the node without its files has its old ID")
	}
}
