package secret

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// The env of a block is of a job's author, who must not get commands or libraries into the plugin: it has the network of the
// node. Each of these changes what a shell, an interpreter or a library does.
func TestPlugin_HostileEnvironment(t *testing.T) {
	n := newNode(t)
	n.script("bash", `exec /bin/bash -c 'true; echo "{\"result\": {\"k\": \"fine\"}}"'`)
	for name, value := range map[string]string{
		"BASH_ENV": `$(kill -9 $$)`, "BASH_FUNC_true%%": `() { kill -9 $$; }`, "SHELLOPTS": "xtrace", "PS4": `$(kill -9 $$)`, "ENV": "/tmp/x",
		"LD_PRELOAD": "/tmp/x.so", "LD_LIBRARY_PATH": "/tmp", "LD_AUDIT": "/tmp/x.so", "GCONV_PATH": "/tmp", "PATH": "/tmp", "IFS": "e",
		"PYTHONPATH": "/tmp", "PYTHONSTARTUP": "/tmp/x", "PERL5OPT": "-Mx", "PERL5LIB": "/tmp", "RUBYOPT": "-rx", "NODE_OPTIONS": "--require=/tmp/x",
		"JAVA_TOOL_OPTIONS": "-javaagent:/tmp/x", "_JAVA_OPTIONS": "-javaagent:/tmp/x", "GIT_SSH_COMMAND": "sh", "GODEBUG": "x=1",
		"https_proxy": "http://attacker", "HTTPS_PROXY": "http://attacker", "all_proxy": "http://attacker", "NO_PROXY": "*",
		"SSL_CERT_FILE": "/tmp/x", "SSL_CERT_DIR": "/tmp", "CURL_CA_BUNDLE": "/tmp/x", "OPENSSL_CONF": "/tmp/x", "SSLKEYLOGFILE": "/tmp/x",
		"HOSTALIASES": "/tmp/x", "RES_OPTIONS": "ndots:15", "LOCALDOMAIN": "attacker", "HOME": "/tmp", "TMPDIR": "/", "LESSOPEN": "|sh",
		"a b": "x", "a-b": "x", "1a": "x", "\u00e9": "x", "a\nLD_PRELOAD": "x",
	} {
		got, err := n.fetch("bash", map[string]string{name: value})
		if err == nil || !strings.Contains(err.Error(), "a plugin's environment") {
			t.Errorf("%s: %q, %v, want an error about the variable", name, got, err)
		}
	}
	for _, name := range []string{"TEAM", "_x1", "REGION", "AWS_REGION", "password", "Proxy", "BUCKET_PATH"} {
		if got, err := n.fetch("bash", map[string]string{name: `$(kill -9 $$)`}); err != nil || got["s.k"] != "fine" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A path is part of events, of errors and of the arguments of a plugin, which each user of the node can read.
func TestFetch_HostilePath(t *testing.T) {
	n := newNode(t)
	n.script("shell", `echo '{"result": {"k": "fine"}}'`)
	b := taskenv.New(taskenv.Subject{Node: &nomad.Node{Meta: map[string]string{"escape": "\x1b[2J", "dash": "-c"}},
		Alloc: &nomad.Allocation{ID: "a", Name: "j.g[0]"}, Task: &nomad.Task{Name: "web", Env: map[string]string{"COPY": "${VAULT_TOKEN}"}}})
	b.SetBelow("vault")
	b.SetHook("vault", map[string]string{"VAULT_TOKEN": "hvs.canary"})
	b.SetHook("identity", map[string]string{"NOMAD_TOKEN": "eyJcanary", "NOMAD_TOKEN_aws": "eyJcanary2"})
	b.SetHook("consul_task", map[string]string{"CONSUL_TOKEN": "canary-consul", "CONSUL_HTTP_TOKEN": "canary-consul"})
	b.SetSecrets(map[string]string{"a.k": "canary-value"})
	for _, path := range []string{"kv/${VAULT_TOKEN}", "kv/${env.VAULT_TOKEN}", "kv/${COPY}", "kv/${NOMAD_TOKEN}", "kv/${NOMAD_TOKEN_aws}",
		"kv/${CONSUL_TOKEN}", "kv/${CONSUL_HTTP_TOKEN}", "kv/${secret.a.k}", "kv/${secret.none.k}", "kv/${meta.escape}", "${meta.dash}", "-c", "a\nb"} {
		for _, block := range []*nomad.Secret{{Name: "s", Provider: "shell", Path: path}, {Name: "s", Provider: nomad.SecretProviderNomad, Path: path},
			{Name: "s", Provider: nomad.SecretProviderVault, Path: path},
			{Name: "s", Provider: nomad.SecretProviderNomad, Path: "p", Config: map[string]any{nomad.SecretConfigNamespace: path}}} {
			got, err := (&Node{Plugins: n.plugins}).Fetch(t.Context(), &Task{Secrets: []*nomad.Secret{block}, Env: b.Build(),
				Log: slog.New(slog.DiscardHandler)})
			if err == nil || strings.Contains(err.Error(), "canary") || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%s %q: %q, %v", block.Provider, path, got, err)
			}
		}
	}
}
