// Package top implements nomad top, which shows the nodes and allocations of a cluster by
// their usage.
//
//	collector ──snapshot──▶ screen (a terminal, refreshed)
//	                   └──▶ text or JSON (once)
//
// One snapshot takes two lists and at most maxNodes + maxAllocs requests for usage, eight at a
// time. In a larger cluster, only the allocations that reserve most are measured. The output has
// the number of the others. The package changes nothing.
package top

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	cmdterm "github.com/open-nomad/open-nomad/command/term"
)

// Limits of the flag -interval.
const (
	defaultInterval = 3 * time.Second
	minInterval     = time.Second
)

// options are the flags of the command.
type options struct {
	interval       time.Duration
	sort           string
	node, job      string
	once, asJSON   bool
	maxAllocations int
}

// Command returns the command top.
func Command() cmdterm.Command {
	return cmdterm.Command{
		Name: "top", Short: "Show nodes and allocations by usage",
		Long: `On a terminal, shows nodes and running allocations with their current CPU and memory, and refreshes.
Elsewhere, or with -once, prints one snapshot. Without -namespace, it shows all namespaces that the token
may read.

    nomad top
    nomad top -sort=memory -job=web -once

Keys: c and m sort by CPU and memory. Tab shows both lists, only the nodes, or only the
allocations. j, k and the arrows scroll. q quits.`,
		Setup: func(f *cmdterm.Flags) cmdterm.Run {
			o := &options{}
			f.DurationVar(&o.interval, "interval", defaultInterval, "The `time` between two snapshots, at least 1s.")
			f.StringVar(&o.sort, "sort", byCPU, "The `order`: cpu or memory.")
			f.StringVar(&o.node, "node", "", "Only the `node` with this name or the beginning of its ID.")
			f.StringVar(&o.job, "job", "", "Only allocations of the `job` with this ID.")
			f.IntVar(&o.maxAllocations, "max", 100, "The `number` of allocations to measure, at most 500.")
			f.BoolVar(&o.once, "once", false, "Print one snapshot and exit.")
			f.BoolVar(&o.asJSON, "json", false, "Print one snapshot as JSON.")
			return o.run
		},
	}
}

func (o *options) check() error {
	switch {
	case o.sort != byCPU && o.sort != byMemory:
		return fmt.Errorf("invalid order %q for -sort: use cpu or memory", o.sort)
	case o.interval < minInterval:
		return fmt.Errorf("invalid time %s for -interval: use at least %s", o.interval, minInterval)
	case o.maxAllocations < 1 || o.maxAllocations > maxAllocs:
		return fmt.Errorf("invalid number %d for -max: use 1 to %d", o.maxAllocations, maxAllocs)
	}
	return nil
}

func (o *options) run(ctx context.Context, e *cmdterm.Env) error {
	if err := o.check(); err != nil {
		return err
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	from := &collector{client: c, options: o, namespace: e.ChosenNamespace()}
	in, inOK := e.In.(*os.File)
	out, outOK := e.Out.(*os.File)
	if !o.once && !o.asJSON && inOK && outOK && term.IsTerminal(int(in.Fd())) && e.IsTerminal() {
		return newScreen(in, out, from).run(ctx)
	}
	s, err := from.snapshot(ctx)
	if err != nil {
		return err
	}
	s.order(o.sort)
	if o.asJSON {
		return e.JSON(s)
	}
	for _, line := range append(s.header(), s.table(both, noLimit)...) {
		e.Println(line)
	}
	return nil
}
