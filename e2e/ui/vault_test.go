package ui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// vaultTask is a group of a job whose task logs in to Vault. The lines of the block are those of its vault block.
const vaultTask = `job %q {
  namespace = %q
  group "g" {
    task "t" {
      driver = "mock_driver"
      config { run_for = "1h" }
      vault {
        %s
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}`

// onVault returns a house whose tasks log in to a Vault. It has the browser of the other house.
func onVault(t *testing.T) (*house, *testvault.Vault) {
	t.Helper()
	shared, v, dir := open(t), testvault.Start(t, testvault.Config{}), t.TempDir()
	h := &house{dir: dir, browser: shared.browser}
	config := filepath.Join(dir, "vault.hcl")
	text := fmt.Sprintf("acl {\n enabled = true\n}\nvault {\n enabled = true\n address = %q\n default_identity {\n aud = [\"vault.io\"]\n"+
		" ttl = \"1h\"\n}\n}\n", v.Addr())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	h.agent, err = cluster.Start(t.Context(), cluster.Options{Bin: os.Args[0], Dir: filepath.Join(dir, "agent"), Lean: true,
		Args: []string{"-dev", "-config=" + config}, Log: &h.log, Secret: management})
	if err != nil {
		t.Fatalf("%v\n%s", err, h.log.String())
	}
	t.Cleanup(func() {
		if err := errors.Join(h.agent.Purge(context.Background()), h.agent.Stop()); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "setup", "vault", "-y", "-jwks-url="+h.agent.Address()+"/.well-known/jwks.json")
	cmd.Env = append(os.Environ(), "VAULT_ADDR="+v.Addr(), "VAULT_TOKEN="+v.Root())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testpace.Until(t, "the node has Vault", func() bool {
		nodes, _, err := h.agent.Client.Nodes().List(nil)
		if err != nil || len(nodes) != 1 {
			return false
		}
		node, _, err := h.agent.Client.Nodes().Info(nodes[0].ID, nil)
		return err == nil && node.Attributes["vault.accessible"] == "true"
	})
	return h, v
}

// TestVaultTokens shows the tokens of tasks: one that is renewed, and one whose login fails. A caller sees those of the
// namespaces whose jobs it may read. No page contains a token.
func TestVaultTokens(t *testing.T) {
	h, v := onVault(t)
	v.Expect("could not be found")
	if _, err := h.agent.Client.Namespaces().Register(&api.Namespace{Name: "other"}, nil); err != nil {
		t.Fatal(err)
	}
	h.run(t, fmt.Sprintf(vaultTask, "shop", "default", ""))
	h.run(t, fmt.Sprintf(vaultTask, "waits", "default", `role = "<i>later</i>"`))
	hidden := fmt.Sprintf(vaultTask, "hidden", "other", "")
	job, err := h.agent.Client.Jobs().ParseHCL(hidden, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.agent.Client.Jobs().Register(job, &api.WriteOptions{Namespace: "other"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := h.agent.Client.Jobs().Deregister("hidden", true, &api.WriteOptions{Namespace: "other"}); err != nil {
			t.Error(err)
		}
	})
	testpace.Until(t, "two tasks have tokens", func() bool { return len(v.Tokens()) == 2 })
	nodes, _, err := h.agent.Client.Nodes().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the login of the third has failed", func() bool {
		all, err := h.agent.Client.Nodes().VaultTokens(nodes[0].ID, nil)
		return err == nil && slices.ContainsFunc(all, func(one *api.VaultToken) bool { return one.JobID == "waits" && one.Error != "" })
	})
	h.visit(t, visited{name: "identities-vault-tokens", path: "/ui/identities/vault", text: "lease 30m", act: func(p *tab) {
		p.waitText("hidden")
		p.waitText("renewed in 1")
		p.waitText("no token")
		p.waitText("<i>later</i>")
		p.noInjection("vault")
		text := evaluate[string](p, "document.documentElement.outerHTML")
		for _, token := range append(v.Tokens(), v.Root()) {
			if strings.Contains(text, token) {
				t.Error("the page has a token")
			}
		}
	}})
	_, secret := h.token(t, "node {\n policy = \"read\"\n}\nnamespace \"default\" {\n policy = \"read\"\n}", 0)
	few := h.with(t, secret)
	few.show(views[0])
	few.goTo("/ui/identities/vault", "shop")
	if text := evaluate[string](few, "document.body.innerText"); strings.Contains(text, "hidden") {
		t.Errorf("the page shows a token of another namespace: %s", text)
	}
}
