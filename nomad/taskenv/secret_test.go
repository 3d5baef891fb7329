package taskenv_test

import (
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
