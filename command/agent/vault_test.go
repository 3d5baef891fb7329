package agent_test

import (
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// TestVault checks that an agent with a vault block starts while its Vault does not answer, that the node has the
// attributes later, and that a reload changes the address.
func TestVault(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "canary") // the stand-in has a fault for a token
	first, second := testvault.Start(t, testvault.Config{}), testvault.Start(t, testvault.Config{Version: "1.22.0"})
	if err := first.Set(testvault.Mode{Hang: true}); err != nil {
		t.Fatal(err)
	}
	block := func(v *testvault.Vault) string {
		return free + "vault {\n enabled = true\n address = \"" + v.Addr() + "\"\n}\n"
	}
	path := write(t, block(first))
	a, stop := run(t, "-dev", "-config", path)
	defer stop()
	testpace.Until(t, "the node is ready while Vault hangs", func() bool { return readyNodes(a) == 1 })
	if err := first.Set(testvault.Mode{}); err != nil {
		t.Fatal(err)
	}
	has := func(attribute string) bool {
		return strings.Contains(body(t, a.Addr(), "/v1/node/"+a.NodeID()), attribute)
	}
	testpace.Until(t, "the node has the facts", func() bool { return has(`"vault.accessible":"true"`) && has(`"vault.version":"1.21.1"`) })
	if err := os.WriteFile(path, []byte(block(second)), 0o600); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the node has the facts of another Vault", func() bool {
		if err := a.Reload(); err != nil {
			t.Fatal(err)
		}
		return has(`"vault.version":"1.22.0"`)
	})
}
