package jobrules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestSecrets(t *testing.T) {
	many := func(n int) (out []*nomad.Secret) {
		for i := range n {
			out = append(out, &nomad.Secret{Name: fmt.Sprintf("s%d", i), Provider: "nomad", Path: "p"})
		}
		return out
	}
	one := func(s nomad.Secret) []*nomad.Secret { return []*nomad.Secret{&s} }
	config := func(key string, value any) map[string]any { return map[string]any{key: value} }
	for _, tc := range []struct {
		secrets []*nomad.Secret
		want    string // "" is valid
	}{
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: "app/${NOMAD_TASK_NAME}", Config: config("namespace", "other")}), ""},
		{one(nomad.Secret{Name: "a_1", Provider: "my-plugin.sh", Path: "x (y)", Env: map[string]string{"A": "${secret.b.c}"}}), ""},
		{many(100), ""},
		{many(101), "101 secret blocks: the limit is 100"},
		{append(many(1), many(1)...), `Duplicate secret "s0" found`},
		{one(nomad.Secret{Name: "a", Provider: "vault", Path: "p"}), `Secret "a" has provider "vault" but no vault block`},
		{one(nomad.Secret{Provider: "nomad", Path: "p"}), `Secret "" is invalid: secret name cannot be empty`},
		{one(nomad.Secret{Name: "a-b", Provider: "nomad", Path: "p"}), `secret name must match regex ^[a-zA-Z0-9_]{1,128}$`},
		{one(nomad.Secret{Name: strings.Repeat("a", 129), Provider: "nomad", Path: "p"}), `secret name must match regex`},
		{one(nomad.Secret{Name: "a", Path: "p"}), `Secret "a" is invalid: secret provider cannot be empty`},
		{one(nomad.Secret{Name: "a", Provider: "../x", Path: "p"}), `is not the name of a plugin`},
		{one(nomad.Secret{Name: "a", Provider: "..", Path: "p"}), `is not the name of a plugin`},
		{one(nomad.Secret{Name: "a", Provider: "nomad"}), `Secret "a" is invalid: secret path cannot be empty`},
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: strings.Repeat("p", 1025)}), `secret path has 1025 bytes: the limit is 1024`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p\x00"}), `contains a control character`},
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: "p\n"}), `contains a control character`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "-o"}), `begins with a dash`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p/${ secret.b.c }"}), `refers to a secret`},
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: "p", Env: map[string]string{"A": "b"}}), `nomad provider cannot use the env block`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p", Config: config("k", "v")}), `custom plugin provider x cannot use the config block`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p", Env: map[string]string{"A=": "b"}}), `the env key "A=": a variable of a plugin's environment has only letters`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p", Env: map[string]string{"": "b"}}), `the env key "": a variable`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p", Env: map[string]string{"A": "\x00"}}), `contains a NUL`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p", Env: map[string]string{"BASH_ENV": "b"}}), `jobs cannot set it`},
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: "p", Config: config("namespace", "a\x1b[2J")}), `without control characters`},
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: "p", Config: config("engine", "kv")}), `config has the unknown key "engine"`},
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: "p", Config: config("namespace", 7)}), `namespace of config is not a string`},
		{one(nomad.Secret{Name: "a", Provider: "vault", Path: "p", Config: config("engine", "kv-v2")}), `engine is "kv-v2": use kv or kv_v2`},
	} {
		j := sample("service")
		j.TaskGroups[0].Tasks[0].Secrets = tc.secrets
		jobrules.Canonicalize(j)
		err := jobrules.Validate(j)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("Validate() with %d secrets = %v, want %q", len(tc.secrets), err, tc.want)
		}
	}
}

func TestSecrets_ServiceName(t *testing.T) {
	j := sample("service")
	j.TaskGroups[0].Tasks[0].Services = []*nomad.Service{{Name: "web-${ secret.a.b }", Provider: "nomad"}}
	jobrules.Canonicalize(j)
	if err := jobrules.Validate(j); err == nil || !strings.Contains(err.Error(), "refers to a secret, and names are public") {
		t.Errorf("Validate() = %v", err)
	}
}

// A reference to a secret in a service of a group stays as it is written, with a warning.
func TestWarnings_SecretsOfGroup(t *testing.T) {
	for text, warned := range map[string]bool{"v-${secret.a.k}": true, "${ secret.a.k }": true, "${NOMAD_JOB_ID}": false, "secret.a.k": false} {
		j := sample("service")
		j.TaskGroups[0].Services = []*nomad.Service{{Name: "web", Tags: []string{text}}}
		jobrules.Canonicalize(j)
		const want = `service "web" refers to a secret, which stays as it is written`
		if got := strings.Join(jobrules.Warnings(j), "\n"); strings.Contains(got, want) != warned {
			t.Errorf("Warnings(%q) = %q", text, got)
		}
	}
}
