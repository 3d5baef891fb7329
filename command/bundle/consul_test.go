package bundle

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	nomad "github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// capturing returns a capture of Consul alone with flags, and what it prints.
func capturing(t *testing.T, c consulFlags) (*capture, *strings.Builder) {
	t.Helper()
	agent, err := c.agent()
	if err != nil || agent == nil {
		t.Fatalf("agent() = %v, %v", agent, err)
	}
	d, err := newDir(t.TempDir(), "b", newScrubber(&nomad.Config{}, c.secrets()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	var errs strings.Builder
	return &capture{settings: &settings{}, consulAgent: agent, dir: d, env: &term.Env{Out: &errs, Err: &errs}, denied: map[string]bool{}}, &errs
}

// textOf returns all files of a capture by the last part of their names.
func textOf(t *testing.T, p *capture) map[string]string {
	t.Helper()
	out := map[string]string{}
	for path, text := range textOfPath(t, p) {
		out[filepath.Base(path)] = text
	}
	return out
}

// textOfPath returns all files of a capture by their names below the bundle.
func textOfPath(t *testing.T, p *capture) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(p.dir.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(p.dir.path, path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withSecrets puts a secret into each place of a description where Consul has one, and into places that are unknown.
func withSecrets(self testconsul.Self) {
	self["DebugConfig"]["ACLTokens"] = map[string]any{"ACLAgentToken": "canary", "ACLDefaultToken": "canary"}
	self["DebugConfig"]["ACLInitialManagementToken"] = "canary"
	self["DebugConfig"]["EncryptKey"] = "canary"
	self["DebugConfig"]["Checks"] = []any{map[string]any{"Header": map[string]any{"Authorization": []string{"canary"}}, "ScriptArgs": []string{"canary"}}}
	self["DebugConfig"]["Services"] = []any{map[string]any{"Token": "canary", "Meta": map[string]string{"k": "canary"}}}
	self["DebugConfig"]["ConnectCAConfig"] = map[string]any{"PrivateKey": "canary", "RootCert": "canary"}
	self["DebugConfig"]["RetryJoinLAN"] = []string{"provider=aws secret_access_key=canary"}
	self["DebugConfig"]["NewKey"] = "canary"
	self["Config"]["NewKey"] = "canary"
	self["Member"]["Tags"] = map[string]string{"role": "consul", "acl_token": "canary"}
	self["Stats"]["serf"] = map[string]string{"encrypt": "canary", "members": "1"}
	self["Meta"] = map[string]any{"password": "canary", "any": "canary"}
	self["New"] = map[string]any{"any": "canary"}
}

// TestConsul checks the files of Consul, that they have what they are for, and that no secret is in them.
func TestConsul(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true, Self: withSecrets})
	token := a.NewToken(t, `agent_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]consulFlags{
		"token": {address: a.Addr(), token: token, auth: "user:canary-password"}, "file": {address: a.Addr(), tokenFile: file},
	} {
		t.Setenv("CONSUL_HTTP_TOKEN", "canary-of-the-environment") // not used
		p, errs := capturing(t, c)
		p.readConsul(t.Context(), 0)
		got := textOf(t, p)
		for file := range consulFiles {
			if got[file] == "" {
				t.Errorf("%s: no file %s: %s", name, file, errs)
			}
		}
		for file, text := range got {
			if strings.Contains(text, "canary") || strings.Contains(text, token) {
				t.Errorf("%s: %s has a secret:\n%s", name, file, text)
			}
		}
		self := got["consul-agent-self.json"]
		for _, want := range []string{`"NodeName": "node1"`, `"Version": "1.22.1"`, `"GRPCPort": 8502`, `"role": "consul"`, `"members": "1"`, `"envoy"`} {
			if !strings.Contains(self, want) {
				t.Errorf("%s: the description lost %s:\n%s", name, want, self)
			}
		}
		if len(p.failed)+len(p.denied) > 0 || errs.Len() > 0 {
			t.Errorf("%s: failed %q, denied %v: %s", name, p.failed, p.denied, errs)
		}
		if out := p.dir.scrub.text("log: " + token + " and canary-of-the-environment"); strings.Contains(out, token) || strings.Contains(out, "canary") {
			t.Errorf("%s: a log keeps a token of the caller: %s", name, out)
		}
	}
}

// TestConsul_Failures checks that what the token may not read is left out, that a failure is recorded without secrets, and
// that an agent without an answer gets one request.
func TestConsul_Failures(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	weak := a.NewToken(t, `node_prefix "" { policy = "read" }`)
	a.Expect("Permission denied")
	p, errs := capturing(t, consulFlags{address: a.Addr(), token: weak})
	p.readConsul(t.Context(), 0)
	if got := textOf(t, p); len(got) != 3 || len(p.failed) > 0 || !p.denied["nomad/0000/consul-agent-self.json"] {
		t.Errorf("a weak token: %d files, failed %q, denied %v", len(got), p.failed, p.denied)
	}
	if strings.Contains(errs.String(), weak) {
		t.Errorf("errors: %s", errs)
	}
	if err := a.Set(testconsul.Mode{Fail: true}); err != nil {
		t.Fatal(err)
	}
	if p.readConsul(t.Context(), 1); len(p.failed) != len(consulFiles) || !strings.HasSuffix(p.failed[0], "unexpected status 500: the servers of Consul have no leader") {
		t.Errorf("status 500: failed %q", p.failed)
	}
	p.failed = nil
	if err := a.Set(testconsul.Mode{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	if p.readConsul(t.Context(), 2); len(p.failed) != 1 || !strings.Contains(p.failed[0], "connection refused") {
		t.Errorf("no Consul: failed %q", p.failed)
	}
}

// TestConsul_Flags checks that no flag for Consul reaches the index with a secret, and when there is a capture.
func TestConsul_Flags(t *testing.T) {
	f := Commands()[0].FlagSet()
	for _, name := range []string{"consul-token", "consul-auth", "consul-http-addr", "consul-client-key"} {
		if err := f.Set(name, "canary"); err != nil {
			t.Fatal(err)
		}
	}
	for name, v := range setFlags(f) {
		if strings.Contains(v, "canary") {
			t.Errorf("-%s is in the index: %s", name, v)
		}
	}
	t.Setenv("CONSUL_HTTP_ADDR", "")
	t.Setenv("CONSUL_HTTP_TOKEN", "canary-of-the-environment")
	c := consulFlags{}
	if a, err := c.agent(); a != nil || err != nil {
		t.Errorf("agent() = %v, %v without an address", a, err)
	}
	if !slices.Contains(c.secrets(), "canary-of-the-environment") {
		t.Error("the token of the environment is no secret of the caller")
	}
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1")
	if a, err := c.agent(); a == nil || err != nil {
		t.Errorf("agent() = %v, %v with the address of the environment", a, err)
	}
}
