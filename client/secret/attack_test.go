package secret

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/landlock"
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
		"grpc_proxy": "http://attacker", "RSYNC_PROXY": "attacker:80",
		"SSL_CERT_FILE": "/tmp/x", "SSL_CERT_DIR": "/tmp", "CURL_CA_BUNDLE": "/tmp/x", "OPENSSL_CONF": "/tmp/x", "SSLKEYLOGFILE": "/tmp/x",
		"HOSTALIASES": "/tmp/x", "RES_OPTIONS": "ndots:15", "LOCALDOMAIN": "attacker", "HOME": "/tmp", "TMPDIR": "/", "LESSOPEN": "|sh",
		"a b": "x", "a-b": "x", "1a": "x", "\u00e9": "x", "a\nLD_PRELOAD": "x",
	} {
		got, err := n.fetch("bash", map[string]string{name: value})
		if err == nil || !strings.Contains(err.Error(), "a plugin's environment") {
			t.Errorf("%s: %q, %v, want an error about the variable", name, got, err)
		}
	}
	for _, name := range []string{"TEAM", "_x1", "REGION", "AWS_REGION", "password", "Proxy", "PROXY_USER", "BUCKET_PATH", "VAULT_ADDR"} {
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

// The directory has files that are not programs, and one that would run as root. Abstract sockets of the machine cannot be
// reached, and no descriptor of the agent is inherited.
func TestPlugin_HostileFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	n := newNode(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mkfifo(filepath.Join(n.dir, "fifo"), 0o755))
	must(os.Chmod(filepath.Join(n.dir, "fifo"), 0o755))
	must(syscall.Mknod(filepath.Join(n.dir, "zero"), syscall.S_IFCHR|0o755, 1<<8|5))
	l, err := net.Listen("unix", filepath.Join(n.dir, "socket"))
	must(err)
	defer l.Close()
	n.script("foreign", `echo '{"result": {}}'`)
	must(os.Chown(filepath.Join(n.dir, "foreign"), 84000, 84000))
	must(os.Link(filepath.Join(n.dir, "foreign"), filepath.Join(n.dir, "linked")))
	for _, name := range []string{"fifo", "zero", "socket", "foreign", "linked", ".", "..", "../secrets/foreign", "a\x00b"} {
		if got, err := n.fetch(name, nil); err == nil {
			t.Errorf("%q: %q", name, got)
		}
	}
	if got := n.plugins.Fingerprint(t.Context()); len(got) != 2 {
		t.Errorf("Fingerprint() = %v", got)
	}

	abstract, err := net.Listen("unix", "@open-nomad-secret-plugin-test")
	must(err)
	defer abstract.Close()
	self, err := os.ReadFile("/proc/self/exe")
	must(err)
	name := filepath.Join(n.dir, "own")
	must(os.WriteFile(name, self, 0o755))
	must(os.Chmod(name, 0o755|os.ModeSetuid|os.ModeSetgid))
	got, err := n.fetch("own", nil)
	abi, aerr := landlock.ABI()
	must(aerr)
	if err != nil || got["s.uid"] == "0" || got["s.reached"] != "false" && abi >= landlock.ABIScopes {
		t.Errorf("a setuid plugin: %q, %v", got, err)
	}
	// 0, 1, 2, that of the directory, and those of the runtime: its epoll and an eventfd.
	if count, err := strconv.Atoi(got["s.descriptors"]); err != nil || count > 7 {
		t.Errorf("descriptors: %q", got["s.descriptors"])
	}
}
