package namespaces

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestCheckIsolation(t *testing.T) {
	type rules = nomad.NamespaceIsolation
	for _, c := range []struct {
		rules *rules
		want  string
	}{
		{nil, ""}, {&rules{}, ""}, {&rules{Claim: true}, ""}, {&rules{Minimum: "host", Enforce: true, Warn: "strict"}, ""},
		{&rules{Minimum: "low"}, `isolation of namespace "team": minimum: unknown isolation level "low": use none, host,`},
		{&rules{Warn: "Strict"}, `warn: unknown isolation level "Strict"`},
		{&rules{Enforce: true, Warn: "host"}, "enforce has no effect without a minimum"},
	} {
		err := check(&nomad.Namespace{Name: "team", Isolation: c.rules})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.rules, err, c.want)
		}
	}
}

func TestCheckPrivileged(t *testing.T) {
	for value, valid := range map[string]bool{"": true, "explicit": true, "Explicit": false, "true": false, "never": false} {
		if err := check(&nomad.Namespace{Name: "team", Privileged: value}); (err == nil) != valid {
			t.Errorf("privileged %q: %v, want valid: %t", value, err, valid)
		}
	}
}
