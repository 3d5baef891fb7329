package node

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// identitySection prints the ID of the key that signed the node's identity, and when the
// identity was issued and expires. The servers store only the key ID, so the node is queried.
func identitySection(ctx context.Context, e *term.Env, c *api.Client, n *api.Node) {
	rows := []string{term.Row("Key ID", n.IdentitySigningKeyID)}
	resp, err := c.Nodes().Identity().Get(&api.NodeIdentityGetRequest{NodeID: n.ID}, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		rows = append(rows, term.Row("Issued", "unknown: "+err.Error()))
	} else {
		now := time.Now()
		rows = append(rows, term.Row("Issued", moment(resp.Claims["iat"], now)), term.Row("Expires", moment(resp.Claims["exp"], now)))
	}
	e.Println("\n" + e.Bold("Identity") + "\n" + term.Pairs(rows))
}

// moment formats the time of a claim, with the duration until then or since then.
func moment(claim any, now time.Time) string {
	seconds, ok := claim.(float64)
	if !ok {
		return "<none>"
	}
	t := time.Unix(int64(seconds), 0)
	if d := t.Sub(now).Truncate(time.Second); d > 0 {
		return term.Time(t) + " (in " + term.Duration(d) + ")"
	}
	return term.Time(t) + " (" + term.Duration(now.Sub(t).Truncate(time.Second)) + " ago)"
}
