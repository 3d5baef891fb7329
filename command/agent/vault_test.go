package agent_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// TestVault checks that an agent with a vault block starts while its Vault does not answer and the environment is malformed,
// that the node has the attributes later, and that a reload changes the address.
func TestVault(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "canary") // the stand-in has a fault for a token
	t.Setenv("VAULT_RATE_LIMIT", "canary")
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

// TestVault_Reload checks that a reload names a block that was added and keys that need a restart, but not those that it
// applies. A wrong file leaves the settings. Neither the log nor the API shows a token.
func TestVault_Reload(t *testing.T) {
	block := func(keys string) string {
		return free + "vault {\n enabled = true\n token = \"canary\"\n task_token_ttl = \"1h\"\n address = \"http://127.0.0.1:1\"\n" + keys + "}\n"
	}
	path := write(t, block(""))
	out := &testbuffer.Buffer{}
	set := func() (*config.Settings, error) { return config.Parse([]string{"-dev", "-config", path}) }
	first, err := set()
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(first, set, out)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(stopped) }()
	if !strings.Contains(out.String(), "keys that have no effect, which are ignored: keys=[task_token_ttl]") {
		t.Errorf("the log does not name the ignored key: %s", out)
	}
	for _, c := range []struct{ keys, want string }{
		{"namespace = \"n\"\n create_from_role = \"r\"\n jwt_auth_backend_path = \"p\"\n tls_skip_verify = true\n", ""},
		{"default_identity { aud = [\"a\"] }\n", "vault.default_identity.aud"},
		{"}\nvault {\n name = \"west\"\n", "keys=[vault]"},
	} {
		if err := os.WriteFile(path, []byte(block(c.keys)), 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(out.String())
		if err := a.Reload(); err != nil {
			t.Fatal(err)
		}
		text := out.String()[before:]
		if warned := strings.Contains(text, "require a restart"); warned != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("%q: want %q in the log: %s", c.keys, c.want, text)
		}
	}
	if err := os.WriteFile(path, []byte(block("ca_file = \"/nowhere\"\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); err == nil || !strings.Contains(err.Error(), "vault.ca_file") {
		t.Errorf("a reload with a missing file: %v", err)
	}
	if text := body(t, a.Addr(), "/v1/agent/self"); strings.Contains(text, "canary") || !strings.Contains(text, "127.0.0.1:1") {
		t.Errorf("shown: %s", text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Contains(out.String(), "canary") {
		t.Errorf("the log has the token: %s", out)
	}
}
