package monitor

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// TestVaultLogins checks the tables of logins to Vault.
func TestVaultLogins(t *testing.T) {
	list := []*api.VaultLogin{
		{TaskGroup: "g", Task: "a", Cluster: "default", Role: "web", Identity: "vault_default", Alg: "EdDSA",
			Claims: []*api.VaultClaim{{Name: "/extra_claims/x", Value: "1"}, {Name: "aud", Value: "vault.io"}}},
		{TaskGroup: "g", Task: "b", Cluster: "default", Identity: "vault_default", Alg: "RS256"},
		{TaskGroup: "g", Task: "c", Cluster: "default"},
	}
	const table = `Task Group  Task  Identity               Algorithm  Role
g           a     vault_default          EdDSA      web
g           b     vault_default          RS256      create_from_role of the client, else default_role of the auth method
g           c     none: the login fails             create_from_role of the client, else default_role of the auth method`
	const claims = `

Claims of task "a" in group "g"
Claim            Value
/extra_claims/x  1
aud              vault.io`
	for _, c := range []struct {
		list   []*api.VaultLogin
		detail term.Detail
		want   string
	}{{nil, term.Full, ""}, {list, term.Short, table}, {list, term.Full, table + claims}} {
		if got := VaultLogins(c.list, c.detail); got != c.want {
			t.Errorf("VaultLogins() =\n%s\nwant\n%s", got, c.want)
		}
	}
}
