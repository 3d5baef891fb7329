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
	const omitted = "\nNot shown: the logins of 3 more tasks"
	const claims = `

Claims of task "a" in group "g"
Claim            Value
/extra_claims/x  1
aud              vault.io`
	for _, c := range []struct {
		list    []*api.VaultLogin
		omitted int
		detail  term.Detail
		want    string
	}{{nil, 0, term.Full, ""}, {list, 0, term.Short, table}, {list, 0, term.Full, table + claims}, {list, 3, term.Full, table + omitted + claims}} {
		if got := VaultLogins(c.list, c.omitted, c.detail); got != c.want {
			t.Errorf("VaultLogins() =\n%s\nwant\n%s", got, c.want)
		}
	}
}
