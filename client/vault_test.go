package client_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// The node registers while its Vault hangs, and again when it answers, when it is sealed and when it is unsealed.
func TestVault_Hangs(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	mode := func(m testvault.Mode) {
		t.Helper()
		if err := v.Set(m); err != nil {
			t.Fatal(err)
		}
	}
	mode(testvault.Mode{Hang: true})
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cluster, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: v.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Vault = []*vault.Cluster{cluster}
	node := clienttest.Start(t, cfg)
	registered := func() (version, accessible string, ok bool) {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		if f.Node == nil {
			return "", "", false
		}
		return f.Node.Attributes["vault.version"], f.Node.Attributes["vault.accessible"], true
	}
	testpace.Until(t, "the node registers while Vault hangs", func() bool { _, _, ok := registered(); return ok })
	if version, _, _ := registered(); version != "" {
		t.Errorf("version %q while Vault hangs", version)
	}
	testpace.Until(t, "the request", func() bool { return v.Calls("GET /v1/sys/seal-status") == 1 })
	mode(testvault.Mode{})
	until := func(what, accessible string) {
		t.Helper()
		testpace.Until(t, what, func() bool {
			node.Reload()
			version, got, _ := registered()
			return version == "1.21.1" && got == accessible
		})
	}
	until("the node registers with the facts", "true")
	v.Seal()
	until("the node registers without accessible", "")
	v.Unseal()
	until("the node registers with accessible", "true")
}
