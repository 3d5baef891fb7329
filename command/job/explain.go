package job

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

// noNode is the exit code of job explain if no node fits some group.
const noNode = 2

func explainCommand() term.Command {
	return term.Command{
		Name: "job explain", Args: "<job | path>", MinArgs: 1, MaxArgs: 1,
		Short: "Show why nodes can or cannot run a job",
		Long: `Runs the checks of the scheduler for one more allocation of each group, on every node, with their numbers.
Takes the ID of a registered job, or a jobspec: a file, - for standard input, or a URL. A jobspec whose name
ends with .json is parsed as JSON. Registers nothing. Only servers of open-nomad support it.

For tasks with a vault block, the role of the login and the claims of the identity are shown. Nothing is signed.

Nodes that fit come first, then those that fail late. Without -verbose only the failed checks are shown.
Tokens that cannot read nodes get only the number of nodes that fail at each check.

Exit codes: 0 when each group has a node that fits, 2 when a group has none, 1 for an error.`,
		Setup: func(f *term.Flags) term.Run {
			x := &explain{}
			x.strict = true
			x.vars = f.Strings("var", "A `name=value` pair for an input variable of the jobspec; may be repeated.")
			x.varFiles = f.Strings("var-file", "A `file` with values for input variables; may be repeated.")
			f.StringVar(&x.group, "group", "", "Show only this task `group`.")
			f.StringVar(&x.node, "node", "", "Show only the `node` with this name or prefix of the ID.")
			f.IntVar(&x.perPage, "per-page", 20, "The maximum number of nodes of each group per page, 200 at most.")
			f.StringVar(&x.page, "page-token", "", "The token of the next page.")
			f.DetailVar(&x.detail, "Show full IDs and every check.")
			x.formats.Declare(f)
			return x.run
		},
	}
}

type explain struct {
	source
	group, node, page string
	perPage           int
	detail            term.Detail
	formats           term.Formats
}

func (x *explain) run(ctx context.Context, e *term.Env) error {
	got, meta, err := x.ask(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	if x.formats.Wanted() {
		err = x.formats.Print(e, got)
	} else {
		x.show(e, got, meta)
	}
	if err != nil {
		return err
	}
	for _, g := range got.Groups {
		if g.Fits == 0 {
			return term.Exit(noNode)
		}
	}
	return nil
}

// ask returns the explanation of a jobspec, or of a registered job.
func (x *explain) ask(ctx context.Context, e *term.Env, arg string) (*api.JobExplanation, *api.QueryMeta, error) {
	q := &api.QueryOptions{PerPage: int32(min(x.perPage, 200)), NextToken: x.page, Params: map[string]string{"group": x.group, "node": x.node}}
	if !isSpec(arg) {
		c, job, err := find(ctx, e, arg)
		if err != nil {
			return nil, nil, err
		}
		q.Namespace = job.Namespace
		got, meta, err := c.Jobs().Explain(job.ID, q.WithContext(ctx))
		return got, meta, explained(err)
	}
	x.json = strings.HasSuffix(arg, ".json")
	job, _, err := x.read(ctx, e, arg)
	if err != nil {
		return nil, nil, err
	}
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	if job.Namespace != nil {
		q.Namespace = *job.Namespace
	}
	got, meta, err := c.Jobs().ExplainJob(job, q.WithContext(ctx))
	return got, meta, explained(err)
}

func explained(err error) error {
	if err != nil {
		return fmt.Errorf("Error explaining job: %w", err)
	}
	return nil
}

// isSpec reports whether the argument names a jobspec rather than a job.
func isSpec(arg string) bool {
	for _, end := range []string{".hcl", ".nomad", ".json"} {
		if strings.HasSuffix(arg, end) {
			return true
		}
	}
	if arg == "-" || strings.Contains(arg, "://") {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}

func (x *explain) show(e *term.Env, got *api.JobExplanation, meta *api.QueryMeta) {
	e.Println(term.Pairs([]string{term.Row("Job ID", got.JobID), term.Row("Namespace", got.Namespace)}))
	e.Println("\n" + monitor.Explanation(got, x.detail))
	if text := monitor.VaultLogins(got.Vault, got.VaultOmitted, term.Full); text != "" {
		e.Println("\n" + e.Bold("Vault") + "\n" + text)
	}
	if meta.NextToken != "" {
		e.Printf("\nThere are more nodes. To get the next page, add -page-token %s\n", meta.NextToken)
	}
}
