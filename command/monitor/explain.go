package monitor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Explanation formats the checks of nodes as a table for each group. Full shows each check, Short
// only those that failed. Without the right to read nodes, the table has the number of nodes by their first failed check.
func Explanation(x *api.JobExplanation, detail term.Detail) string {
	var out strings.Builder
	for i, g := range x.Groups {
		if i > 0 {
			out.WriteString("\n\n")
		}
		fmt.Fprintf(&out, "Task Group %q: %d of %d nodes can take one more allocation", g.Name, g.Fits, g.NodeCount)
		if len(g.Failed) > 0 {
			rows := []string{"Check|Nodes|Detail"}
			for _, c := range g.Failed {
				rows = append(rows, term.Row(c.Check, c.Nodes, c.Need))
			}
			out.WriteString("\n" + term.BlankTable(rows))
		}
		if len(g.Nodes) > 0 {
			rows := []string{"Node|Check|Result|Detail"}
			for _, n := range g.Nodes {
				rows = append(rows, nodeRows(n, detail)...)
			}
			out.WriteString("\n" + term.BlankTable(rows))
		}
	}
	return out.String()
}

// nodeRows returns the rows of one node. The node is named in the first row only.
func nodeRows(n *api.NodeExplanation, detail term.Detail) (rows []string) {
	name := detail.ID(n.ID)
	if n.Name != "" {
		name += " " + n.Name
	}
	add := func(cells ...any) {
		rows = append(rows, term.Row(append([]any{name}, cells...)...))
		name = ""
	}
	if n.Fits {
		add("all", "fits", fmt.Sprintf("score %.3f", n.Score))
	}
	for _, c := range n.Checks {
		text := c.Need
		if c.Found != "" && c.Found != c.Need {
			text += ": " + c.Found
		}
		switch {
		case !c.Passed:
			add(c.Check, "failed", text)
		case detail == term.Full:
			add(c.Check, "ok", text)
		}
	}
	return rows
}

// PrintExplanation prints the explanation of a job with every check. Without one, it prints why. It
// prints nothing if the servers do not have the job any more, or are not of this project.
func PrintExplanation(ctx context.Context, e *term.Env, namespace string,
	explain func(*api.QueryOptions) (*api.JobExplanation, *api.QueryMeta, error)) {
	x, _, err := explain((&api.QueryOptions{Namespace: namespace}).WithContext(ctx))
	var status api.UnexpectedResponseError
	switch {
	case errors.As(err, &status) && status.StatusCode() == http.StatusNotFound:
	case err != nil:
		e.Println("\n" + e.Bold("Checks of Nodes") + "\nError explaining the job: " + err.Error())
	default:
		e.Println("\n" + e.Bold("Checks of Nodes") + "\n" + Explanation(x, term.Full))
	}
}
