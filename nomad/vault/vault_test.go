package vault_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// TestIdentityOf checks that the identity of the cluster of the block is returned, also in a list with null.
func TestIdentityOf(t *testing.T) {
	ids := []*nomad.WorkloadIdentity{nil, {Name: "aws"}, {Name: "vault_west"}, {Name: "vault_default"}}
	for name, c := range map[string]struct {
		block *nomad.Vault
		want  string // "" for nil
	}{
		"no block":       {nil, ""},
		"default":        {&nomad.Vault{}, "vault_default"},
		"named default":  {&nomad.Vault{Cluster: "default"}, "vault_default"},
		"other":          {&nomad.Vault{Cluster: "west"}, "vault_west"},
		"other, without": {&nomad.Vault{Cluster: "east"}, ""},
	} {
		got := ""
		if id := vault.IdentityOf(&nomad.Task{Vault: c.block, Identities: ids}); id != nil {
			got = id.Name
		}
		if got != c.want {
			t.Errorf("%s: IdentityOf() = %q, want %q", name, got, c.want)
		}
	}
}
