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
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p/${\tsecret.b.c}"}), `contains a control character`},
		{one(nomad.Secret{Name: "a", Provider: "x", Path: "p/${x}/${\u2003secret.b.c}"}), `refers to a secret`},
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: "p", Config: config("namespace", "${secret.b.c}")}), `namespace of config refers to a secret`},
		{one(nomad.Secret{Name: "a", Provider: "nomad", Path: "secret.b/${NOMAD_JOB_ID}"}), ""},
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
	for _, name := range []string{"web-${secret.a.b}", "web-${ secret.a.b }", "web-${\tsecret.a.b}", "web-${\n secret.a.b}", "${a}-${\u00a0secret.a.b}"} {
		j := sample("service")
		j.TaskGroups[0].Tasks[0].Services = []*nomad.Service{{Name: name, Provider: "nomad"}}
		jobrules.Canonicalize(j)
		if err := jobrules.Validate(j); err == nil || !strings.Contains(err.Error(), "refers to a secret, and names are public") {
			t.Errorf("Validate(%q) = %v", name, err)
		}
	}
}

// A reference to a secret in a service of a group stays as it is written. One in the catalog entry of a service of a task is
// public. Both have a warning.
func TestWarnings_SecretsOfServices(t *testing.T) {
	const ref, group, public = "v-${secret.a.k}", `service "web" refers to a secret, which stays as it is written`, `service "web" has a secret in its tags`
	pair, check := map[string]string{"k": ref}, func(c nomad.ServiceCheck) nomad.Service { return nomad.Service{Checks: []*nomad.ServiceCheck{&c}} }
	for name, c := range map[string]struct {
		service       nomad.Service
		group, public bool
	}{
		"tag":             {nomad.Service{Tags: []string{ref}}, true, true},
		"spaces":          {nomad.Service{Tags: []string{"${ secret.a.k }"}}, true, true},
		"tab":             {nomad.Service{Tags: []string{"${\tsecret.a.k }"}}, true, true},
		"canary tag":      {nomad.Service{CanaryTags: []string{ref}}, true, true},
		"meta":            {nomad.Service{Meta: pair}, true, true},
		"key of meta":     {nomad.Service{Meta: map[string]string{ref: ""}}, true, true},
		"canary meta":     {nomad.Service{CanaryMeta: pair}, true, true},
		"address":         {nomad.Service{Address: ref}, true, true},
		"tagged address":  {nomad.Service{TaggedAddresses: pair}, true, true},
		"port":            {nomad.Service{PortLabel: ref}, true, true},
		"argument":        {check(nomad.ServiceCheck{Args: []string{ref}}), true, false},
		"path":            {check(nomad.ServiceCheck{Path: ref}), true, false},
		"header":          {check(nomad.ServiceCheck{Header: map[string][]string{"A": {"b", ref}}}), true, false},
		"body":            {check(nomad.ServiceCheck{Body: ref}), false, false},
		"other reference": {nomad.Service{Tags: []string{"${NOMAD_JOB_ID}"}}, false, false},
		"no reference":    {nomad.Service{Tags: []string{"secret.a.k"}}, false, false},
	} {
		c.service.Name = "web"
		j := sample("service")
		j.TaskGroups[0].Services = []*nomad.Service{&c.service}
		jobrules.Canonicalize(j)
		if got := strings.Join(jobrules.Warnings(j), "\n"); strings.Contains(got, group) != c.group || strings.Contains(got, public) {
			t.Errorf("%s: Warnings() of a group = %q", name, got)
		}
		j.TaskGroups[0].Services, j.TaskGroups[0].Tasks[0].Services = nil, []*nomad.Service{&c.service}
		jobrules.Canonicalize(j)
		if got := strings.Join(jobrules.Warnings(j), "\n"); strings.Contains(got, public) != c.public || strings.Contains(got, group) {
			t.Errorf("%s: Warnings() of a task = %q", name, got)
		}
	}
}
