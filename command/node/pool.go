package node

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// poolCommands lists the commands for node pools.
func poolCommands() []term.Command {
	return []term.Command{poolApplyCommand(), poolDeleteCommand(), poolInfoCommand(), poolInitCommand(), poolListCommand(), poolJobsCommand(),
		poolNodesCommand()}
}

func poolApplyCommand() term.Command {
	return term.Command{
		Name: "node pool apply", Args: "<file>", MinArgs: 1, MaxArgs: 1,
		Short: "Create or update a node pool",
		Long: "The file contains a node_pool block (see 'nomad node pool init') or JSON; \"-\" reads standard " +
			"input. Attributes that are not set in the file get their default values, even if the pool exists.",
		Setup: func(f *term.Flags) term.Run {
			json := f.Bool("json", false, "The file is JSON.")
			return func(ctx context.Context, e *term.Env) error {
				text, err := e.Input(e.Arg(0), maxPoolFile)
				if err != nil {
					return fmt.Errorf("Error reading node pool: %w", err)
				}
				pool, err := parsePool(e.Arg(0), text, *json)
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				if _, err := c.NodePools().Register(pool, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error applying node pool: %w", err)
				}
				e.Printf("Successfully applied node pool %q!\n", pool.Name)
				return nil
			}
		},
	}
}

// maxPoolFile is the maximum size of the file in bytes.
const maxPoolFile = 1 << 20

func poolDeleteCommand() term.Command {
	return term.Deletion(term.Command{Name: "node pool delete", Args: "<node-pool>", Short: "Delete a node pool without nodes and jobs"},
		"node pool",
		func(c *api.Client, name string, w *api.WriteOptions) (*api.WriteMeta, error) {
			return c.NodePools().Delete(name, w)
		})
}

func poolInfoCommand() term.Command {
	return term.Command{
		Name: "node pool info", Args: "<node-pool>", MinArgs: 1, MaxArgs: 1,
		Short: "Show a node pool",
		Setup: func(f *term.Flags) term.Run {
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				_, p, err := findPool(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				if formats.Wanted() {
					return formats.Print(e, p)
				}
				rows := []string{term.Row("Name", p.Name), term.Row("Description", p.Description), term.Row("Node Identity TTL", p.NodeIdentityTTL)}
				e.Println(term.Pairs(append(rows, overrides(p.SchedulerConfiguration)...)))
				if len(p.Meta) == 0 {
					e.Println("\n" + e.Bold("Metadata") + "\nNo metadata")
				}
				attributes(e, "Metadata", p.Meta)
				return nil
			}
		},
	}
}

// overrides formats the scheduler configuration that a pool overrides.
func overrides(c *api.NodePoolSchedulerConfiguration) []string {
	var rows []string
	if c != nil && c.SchedulerAlgorithm != "" {
		rows = append(rows, term.Row("Scheduler Algorithm", c.SchedulerAlgorithm))
	}
	if c != nil && c.MemoryOversubscriptionEnabled != nil {
		rows = append(rows, term.Row("Memory Oversubscription", *c.MemoryOversubscriptionEnabled))
	}
	return rows
}

// findPool returns the pool with the name, or the only pool whose name begins with it.
// It also returns the client for further requests.
func findPool(ctx context.Context, e *term.Env, name string) (*api.Client, *api.NodePool, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	pools, _, err := c.NodePools().PrefixList(name, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("Error querying node pools: %w", err)
	}
	for _, p := range pools {
		if p.Name == name {
			return c, p, nil
		}
	}
	switch len(pools) {
	case 0:
		return nil, nil, fmt.Errorf("No node pool(s) with prefix %q found", name)
	case 1:
		return c, pools[0], nil
	}
	return nil, nil, fmt.Errorf("Prefix matched multiple node pools\n\n%s", poolTable(pools))
}

func poolTable(pools []*api.NodePool) string {
	rows := []string{"Name|Description"}
	for _, p := range pools {
		rows = append(rows, term.Row(p.Name, p.Description))
	}
	return term.Table(rows)
}

// paged holds the flags of paginated lists.
type paged struct {
	filter, token string
	perPage       int
	formats       term.Formats
}

func (p *paged) declare(f *term.Flags) {
	f.StringVar(&p.filter, "filter", "", "Show only entries that match this `expression`.")
	f.IntVar(&p.perPage, "per-page", 0, "The maximum number of results per page.")
	f.StringVar(&p.token, "page-token", "", "The token of the next page.")
	p.formats.Declare(f)
}

func (p *paged) options(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{Filter: p.filter, PerPage: int32(p.perPage), NextToken: p.token}).WithContext(ctx)
}

// more prints the command for the next page, if there is one.
func (p *paged) more(e *term.Env, meta *api.QueryMeta, command string) {
	if meta.NextToken != "" {
		e.Printf("\nResults have been paginated. To get the next page run:\n\nnomad %s -page-token %s\n", command, meta.NextToken)
	}
}

func poolListCommand() term.Command {
	return term.Command{
		Name: "node pool list", Short: "List the node pools",
		Setup: func(f *term.Flags) term.Run {
			p := &paged{}
			p.declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				pools, meta, err := c.NodePools().List(p.options(ctx))
				switch {
				case err != nil:
					return fmt.Errorf("Error querying node pools: %w", err)
				case p.formats.Wanted():
					return p.formats.Print(e, pools)
				}
				e.Println(poolTable(pools))
				p.more(e, meta, "node pool list")
				return nil
			}
		},
	}
}

func poolJobsCommand() term.Command {
	return term.Command{
		Name: "node pool jobs", Args: "<node-pool>", MinArgs: 1, MaxArgs: 1,
		Short: "List the jobs of a node pool",
		Setup: func(f *term.Flags) term.Run {
			p := &paged{}
			p.declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, pool, err := findPool(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				q := p.options(ctx)
				q.Namespace = e.Namespace()
				jobs, meta, err := c.NodePools().ListJobs(pool.Name, q)
				switch {
				case err != nil:
					return fmt.Errorf("Error querying node pool jobs: %w", err)
				case p.formats.Wanted():
					return p.formats.Print(e, jobs)
				case len(jobs) == 0:
					e.Println("No jobs")
					return nil
				}
				rows := []string{"ID|Type|Priority|Status|Submit Date"}
				for _, j := range jobs {
					rows = append(rows, term.Row(j.ID, j.Type, j.Priority, j.Status, term.Time(time.Unix(0, j.SubmitTime))))
				}
				e.Println(term.Table(rows))
				p.more(e, meta, "node pool jobs "+pool.Name)
				return nil
			}
		},
	}
}

func poolNodesCommand() term.Command {
	return term.Command{
		Name: "node pool nodes", Args: "<node-pool>", MinArgs: 1, MaxArgs: 1,
		Short: "List the nodes of a node pool",
		Setup: func(f *term.Flags) term.Run {
			p := &paged{}
			p.declare(f)
			detail := f.Detail("Show full IDs, addresses and versions.")
			return func(ctx context.Context, e *term.Env) error {
				c, pool, err := findPool(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				nodes, meta, err := c.NodePools().ListNodes(pool.Name, p.options(ctx))
				switch {
				case err != nil:
					return fmt.Errorf("Error querying node pool nodes: %w", err)
				case p.formats.Wanted():
					return p.formats.Print(e, nodes)
				case len(nodes) == 0:
					e.Println("No nodes")
					return nil
				}
				e.Println(table(nodes, *detail, false))
				p.more(e, meta, "node pool nodes "+pool.Name)
				return nil
			}
		},
	}
}

func poolInitCommand() term.Command {
	return term.Command{
		Name: "node pool init", Args: "[filename]", MaxArgs: 1,
		Short: "Write an example node pool specification",
		Setup: func(f *term.Flags) term.Run {
			out := f.String("out", "hcl", "The format: hcl or json.")
			quiet := f.Bool("quiet", false, "Print nothing.")
			return func(_ context.Context, e *term.Env) error {
				name, text := "pool.nomad.hcl", examplePool
				switch *out {
				case "hcl":
				case "json":
					name, text = "pool.nomad.json", examplePoolJSON
				default:
					return fmt.Errorf("invalid value %q for -out: want hcl or json", *out)
				}
				if e.Arg(0) != "" {
					name = e.Arg(0)
				}
				return writeExample(e, name, text, *quiet)
			}
		},
	}
}

// writeExample creates a file. An existing file is an error.
func writeExample(e *term.Env, name, text string, quiet bool) error {
	if err := term.WriteNew(name, text, 0o644); err != nil {
		return err
	}
	if !quiet {
		e.Printf("Example node pool specification written to %s\n", name)
	}
	return nil
}
