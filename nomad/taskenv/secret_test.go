package taskenv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

func TestSecrets(t *testing.T) {
	s := subject()
	s.Task.Env = map[string]string{"DSN": "x:${secret.db.pass}@y", "NONE": "${secret.db.none}"}
	b := taskenv.New(s)
	b.SetSecrets(map[string]string{"db.pass": "a # \"b\"\n${NOMAD_TASK_NAME} ", "db.a-b.c": "d", "db.pin": "12"})
	env := b.Build()
	value := "a # \"b\"\n${NOMAD_TASK_NAME} "
	for in, want := range map[string]string{
		"${secret.db.pass}":             value,
		"${ secret.db.a-b.c }":          "d",
		"${secret.db.x} ${secret.other": "${secret.db.x} ${secret.other",
		"$${secret.db.pass}":            "${secret.db.pass}",
		"${env.secret.db.pass}":         "${env.secret.db.pass}",
	} {
		if got := env.Expand(in); got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
	if got := env.Var("DSN"); got != "x:"+value+"@y" {
		t.Errorf("DSN = %q", got)
	}
	if got := env.Var("NONE"); got != "${secret.db.none}" {
		t.Errorf("NONE = %q", got)
	}
	for name, v := range env.Map() {
		if strings.HasPrefix(name, "secret.") || name != "DSN" && strings.Contains(v, value) {
			t.Errorf("the environment has %s", name)
		}
	}
	got, err := env.Block(map[string]any{"a": "${secret.db.pass}", "b": "${upper(secret.db.a-b.c)}", "c": "${secret.db.none}"})
	if err != nil || got["a"] != value || got["b"] != "D" || got["c"] != "${secret.db.none}" {
		t.Errorf("Block() = %q, %v", got, err)
	}
	if got := env.Isolated(map[string]any{"a": "${secret.db.pin}"}); got["a"] != "12" {
		t.Errorf("Isolated() = %q", got)
	}
	if got := env.WithSecrets(nil).Expand("${secret.db.pin} ${NOMAD_TASK_NAME}"); got != "${secret.db.pin} web" {
		t.Errorf("WithSecrets(nil).Expand() = %q", got)
	}
	if got := env.Redact("12 failed at x" + value + "y"); got != "12 failed at x<secret.db.pass>y" {
		t.Errorf("Redact() = %q", got)
	}
	b.SetSecrets(nil)
	if got := b.Build().Expand("${secret.db.pin}"); got != "${secret.db.pin}" {
		t.Errorf("Expand() = %q without secrets", got)
	}
}

// The environment and the node have precedence over secrets.
func TestSecrets_Precedence(t *testing.T) {
	s := subject()
	s.Task.Env = map[string]string{"secret.a.b": "variable"}
	b := taskenv.New(s)
	b.SetSecrets(map[string]string{"a.b": "secret"})
	if got := b.Build().Expand("${secret.a.b}"); got != "variable" {
		t.Errorf("Expand() = %q, want the variable", got)
	}
}

// An error can have a secret or a token in the form that a URL or a quoted text has.
func TestRedact_Forms(t *testing.T) {
	s := subject()
	s.Task.Env = map[string]string{"COPY": "${VAULT_TOKEN}"}
	b := taskenv.New(s)
	b.SetBelow("vault")
	b.SetHook("vault", map[string]string{"VAULT_TOKEN": "hvs.abc/d", "VAULT_NAMESPACE": "team-one"})
	b.SetHook("identity", map[string]string{"NOMAD_TOKEN": "eyJ0.x", "NOMAD_TOKEN_aws": "eyJ1.y"})
	b.SetHook("consul", map[string]string{"CONSUL_TOKEN": "c0nsul", "CONSUL_HTTP_TOKEN": "c0nsul"})
	b.SetSecrets(map[string]string{"db.pass": "p\"w d/1"})
	env := b.Build()
	for in, want := range map[string]string{
		"p\"w d/1":                          "<secret.db.pass>",
		`"p\"w d/1"`:                        `"<secret.db.pass>"`,
		"https://h/?p=p%22w+d%2F1":          "https://h/?p=<secret.db.pass>",
		"https://h/p%22w%20d%2F1":           "https://h/<secret.db.pass>",
		env.Expand("kv/${VAULT_TOKEN}"):     "kv/<VAULT_TOKEN>",
		env.Expand("kv/${COPY}"):            "kv/<VAULT_TOKEN>",
		"https://h/hvs.abc%2Fd":             "https://h/<VAULT_TOKEN>",
		env.Expand("${NOMAD_TOKEN_aws}"):    "<NOMAD_TOKEN_aws>",
		env.Expand("a${NOMAD_TOKEN}"):       "a<NOMAD_TOKEN>",
		env.Expand("b${CONSUL_TOKEN}"):      "b<CONSUL_HTTP_TOKEN>",
		env.Expand("b${CONSUL_HTTP_TOKEN}"): "b<CONSUL_HTTP_TOKEN>",
		env.Expand("c${VAULT_NAMESPACE}"):   "cteam-one",
	} {
		for by, redact := range map[string]func(string) string{"Env": env.Redact, "Builder": b.Redact} {
			if got := redact(in); got != want {
				t.Errorf("%s.Redact(%q) = %q, want %q", by, in, got, want)
			}
		}
	}
}

// A job can have many secrets, and an error much text.
func TestRedact_Large(t *testing.T) {
	b, text := large()
	if got := b.Redact(text + "value-7-%2Fabcdefgh"); got != text+"<secret.a.k7>" {
		t.Errorf("Redact() ends with %q", got[len(got)-40:])
	}
}

func BenchmarkRedact(b *testing.B) {
	env, text := large()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		env.Redact(text)
	}
}

// large returns an environment with 1000 secrets, and a text of 1 MiB in which each of their beginnings is found.
func large() (*taskenv.Builder, string) {
	b := taskenv.New(subject())
	values := map[string]string{}
	for i := range 1000 {
		values[fmt.Sprintf("a.k%d", i)] = fmt.Sprintf("value-%d-/abcdefgh", i)
	}
	b.SetSecrets(values)
	return b, strings.Repeat("value-", 1<<20/6)
}
