package node

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// vaultSection prints the tokens of the node's tasks in Vault. The servers do not store them, so the node is queried. A node
// without the attribute can have tokens too: its agent was restarted while Vault was down. Without tokens it prints nothing
// for such a node, nor does it print the error of an agent that does not have the method.
func (o *statusOptions) vaultSection(ctx context.Context, e *term.Env, c *api.Client, n *api.Node) {
	tokens, err := c.Nodes().VaultTokens(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if n.Attributes["vault.version"] == "" && len(tokens) == 0 {
		return
	}
	e.Println("\n" + e.Bold("Vault Tokens"))
	switch {
	case err != nil:
		e.Println("unknown: " + term.Cell(err.Error()))
	case len(tokens) == 0:
		e.Println("No tokens")
	default:
		e.Println(vaultTable(tokens, o.detail, time.Now()))
	}
}

// vaultTable formats tokens. The last error has a line of its own, since it may be long. A compromised node chooses the texts.
func vaultTable(tokens []*api.VaultToken, detail term.Detail, now time.Time) string {
	rows, faults := []string{"Alloc ID|Task|Role|Lease|Expires|Next Renewal"}, ""
	for _, t := range tokens {
		role := t.Role
		if role == "" {
			role = "<default>"
		}
		rows = append(rows, term.Row(detail.ID(t.AllocID), t.Task, role, lease(t), until(t.Expires, now), until(t.NextRenewal, now)))
		if t.Error != "" {
			faults += "\n" + term.Cell(detail.ID(t.AllocID)+" "+t.Task+": last error, at "+term.Time(t.ErrorAt)+": "+t.Error)
		}
	}
	return term.Table(rows) + faults
}

// lease formats the lifetime of a token.
func lease(t *api.VaultToken) string {
	switch {
	case !t.LoggedIn:
		return "no token"
	case t.Lease == 0:
		return "unlimited"
	}
	return term.Duration(t.Lease)
}

// until formats a time with the duration until then, "<none>" for the zero time.
func until(t, now time.Time) string {
	if t.IsZero() {
		return "<none>"
	}
	return moment(float64(t.Unix()), now)
}
