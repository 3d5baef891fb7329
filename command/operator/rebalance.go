package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func rebalanceCommand() term.Command {
	return term.Command{
		Name: "operator rebalance", Short: "Move allocations to even out the usage of the nodes",
		Long: `Finds moves of allocations of service jobs that even out the usage of the nodes. It lists them, asks,
and makes them. With -dry-run it only lists them.

    nomad operator rebalance -dry-run
    nomad operator rebalance -max-moves=5 -job=web

The load of a node is the larger of its used shares of CPU and memory. Each move lowers the standard
deviation of the loads of the ready and eligible nodes.

An allocation moves only to a node that meets all constraints of its job. The node must be at least
as good for the affinities and spreads of the job as the present one. Allocations that are not
running and healthy stay. So do canaries, and allocations with a sticky disk or volume. Allocations
of jobs with an active deployment stay too.

A move stops the allocation and starts its replacement on the other node. At most
migrate.max_parallel allocations of a group move at once. The command waits until the replacements
are healthy. After a failure, or Ctrl-C, it starts no further move.

The list requires operator:read. It has only allocations in namespaces with read-job. A move
requires alloc-lifecycle in the namespace of the allocation. Without -namespace, allocations of all
namespaces move.`,
		Setup: func(f *term.Flags) term.Run {
			r := &rebalance{}
			f.BoolVar(&r.dryRun, "dry-run", false, "List the moves and make none.")
			f.IntVar(&r.opts.MaxMoves, "max-moves", 10, "The maximum `number` of moves, up to 1000. Default 10.")
			f.StringVar(&r.opts.Datacenter, "datacenter", "", "Only the nodes of this `datacenter`.")
			f.StringVar(&r.opts.NodePool, "node-pool", "", "Only the nodes of this node `pool`.")
			f.StringVar(&r.opts.JobID, "job", "", "Move only allocations of the `job` with this ID.")
			f.DurationVar(&r.timeout, "timeout", 10*time.Minute, "The maximum time of one move, as a `duration`. Default 10m.")
			f.BoolVar(&r.yes, "yes", false, "Don't ask.")
			r.formats.Declare(f)
			f.DetailVar(&r.detail, "Print full IDs.")
			return r.run
		},
	}
}

// rebalance holds the flags of the command.
type rebalance struct {
	dryRun, yes bool
	opts        api.RebalanceOptions
	timeout     time.Duration
	formats     term.Formats
	detail      term.Detail
}

func (r *rebalance) run(ctx context.Context, e *term.Env) error {
	switch {
	case r.formats.Wanted() && !r.dryRun:
		return errors.New("-json and -t require -dry-run")
	case r.opts.MaxMoves < 1:
		return fmt.Errorf("Invalid value %d for -max-moves: want a number of at least 1", r.opts.MaxMoves)
	case r.timeout <= 0:
		return fmt.Errorf("Invalid value %s for -timeout: want a positive duration", r.timeout)
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	namespace := cmp.Or(e.NamespaceFlag(), "*")
	plan, _, err := c.Operator().Rebalance(&r.opts, (&api.QueryOptions{Namespace: namespace}).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("Error finding moves: %w", err)
	case r.formats.Wanted():
		return r.formats.Print(e, plan)
	}
	r.show(e, plan)
	if r.dryRun || len(plan.Moves) == 0 {
		return nil
	}
	if !r.yes && !e.Confirm(fmt.Sprintf("\nMake %s? [y/N]", counted(len(plan.Moves), "move"))) {
		e.Println("No allocation was moved")
		return nil
	}
	m := &mover{env: e, client: c, timeout: r.timeout, detail: r.detail, total: len(plan.Moves), pending: plan.Moves}
	return m.run(ctx)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// show prints the measure and the moves.
func (r *rebalance) show(e *term.Env, plan *api.Rebalance) {
	a, b := plan.Before, plan.After
	e.Println(term.Pairs([]string{
		term.Row("Nodes", a.Nodes),
		term.Row("Mean Load", percent(a.Mean)),
		term.Row("Highest Load", percent(a.Highest)+" now, "+percent(b.Highest)+" after the moves"),
		term.Row("Lowest Load", percent(a.Lowest)+" now, "+percent(b.Lowest)+" after the moves"),
		term.Row("Deviation", percent(a.Deviation)+" now, "+percent(b.Deviation)+" after the moves"),
	}))
	e.Println()
	if len(plan.Moves) == 0 {
		e.Println("No move would even out the usage of the nodes")
	} else {
		rows := []string{"Allocation|Job|Task Group|From|To|Deviation"}
		for _, m := range plan.Moves {
			rows = append(rows, term.Row(r.detail.ID(m.AllocID), m.JobID, m.TaskGroup, r.node(m.FromName, m.FromID), r.node(m.ToName, m.ToID),
				percent(m.Deviation)))
		}
		e.Println(term.Table(rows))
	}
	if len(plan.Skipped) > 0 {
		e.Println("\nAllocations that stay: " + stays(plan.Skipped))
	}
}

// node returns the name of a node, or its ID if the name is not known.
func (r *rebalance) node(name, id string) string {
	if name == "" || r.detail == term.Full {
		return r.detail.ID(id)
	}
	return name
}

func stays(skipped map[string]int) string {
	var out []string
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		out = append(out, fmt.Sprintf("%d %s", skipped[why], why))
	}
	return strings.Join(out, ", ")
}
