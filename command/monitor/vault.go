package monitor

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// defaultRole is shown for a task whose block has no role. Only its client has the configuration.
const defaultRole = "create_from_role of the client, else default_role of the auth method"

// VaultLogins formats how tasks log in to Vault, "" for none. Short has a row for each task. Full has the claims too. omitted
// is the number of tasks that are not in the list.
func VaultLogins(list []*api.VaultLogin, omitted int, detail term.Detail) string {
	if len(list) == 0 {
		return ""
	}
	rows := []string{"Task Group|Task|Identity|Algorithm|Role"}
	for _, l := range list {
		if l.Identity == "" {
			rows = append(rows, term.Row(l.TaskGroup, l.Task, "none: the login fails", "", cmp.Or(l.Role, defaultRole)))
			continue
		}
		rows = append(rows, term.Row(l.TaskGroup, l.Task, l.Identity, l.Alg, cmp.Or(l.Role, defaultRole)))
	}
	out := term.BlankTable(rows)
	if omitted > 0 {
		out += fmt.Sprintf("\nNot shown: the logins of %d more tasks", omitted)
	}
	if detail != term.Full {
		return out
	}
	for _, l := range list {
		if len(l.Claims) == 0 {
			continue
		}
		rows := []string{"Claim|Value"}
		for _, c := range l.Claims {
			rows = append(rows, term.Row(c.Name, c.Value))
		}
		out += "\n\nClaims of task \"" + l.Task + "\" in group \"" + l.TaskGroup + "\"\n" + term.BlankTable(rows)
	}
	return strings.TrimRight(out, "\n")
}
