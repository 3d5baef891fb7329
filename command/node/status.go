package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

type statusOptions struct {
	self, short, stats, allocs, quiet, os bool
	detail                                term.Detail
	filter, pageToken                     string
	perPage                               int
	formats                               term.Formats
}

func statusCommand() term.Command {
	return term.Command{
		Name: "node status", Alias: []string{"node-status"}, Args: "[node]", MaxArgs: 1,
		Short: "Show the nodes, or one node with its allocations",
		Setup: func(f *term.Flags) term.Run {
			o := &statusOptions{}
			f.BoolVar(&o.self, "self", false, "Use the node of the queried agent.")
			f.BoolVar(&o.short, "short", false, "Show only the node and its allocations.")
			f.BoolVar(&o.stats, "stats", false, "Show detailed resource usage of the host.")
			f.BoolVar(&o.allocs, "allocs", false, "In the list, show the number of running allocations.")
			f.BoolVar(&o.quiet, "quiet", false, "In the list, print only IDs.")
			f.BoolVar(&o.os, "os", false, "In the list, show the operating system.")
			f.DetailVar(&o.detail, "Show full IDs, attributes and more details.")
			f.StringVar(&o.filter, "filter", "", "In the list, show only nodes that match this `expression`.")
			f.IntVar(&o.perPage, "per-page", 0, "In the list, the maximum number of nodes per page.")
			f.StringVar(&o.pageToken, "page-token", "", "In the list, the token of the next page.")
			o.formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				if e.Arg(0) == "" && !o.self {
					return o.list(ctx, e)
				}
				return o.one(ctx, e)
			}
		},
	}
}

func (o *statusOptions) list(ctx context.Context, e *term.Env) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	q := (&api.QueryOptions{Filter: o.filter, PerPage: int32(o.perPage), NextToken: o.pageToken}).WithContext(ctx)
	if o.os {
		q.Params = map[string]string{"os": "true"}
	}
	nodes, meta, err := c.Nodes().List(q)
	switch {
	case err != nil:
		return fmt.Errorf("Error querying node status: %w", err)
	case o.formats.Wanted():
		return o.formats.Print(e, nodes)
	case o.quiet:
		for _, n := range nodes {
			e.Println(n.ID)
		}
	case len(nodes) > 0 && o.allocs:
		return o.counted(ctx, e, c, nodes)
	case len(nodes) > 0:
		e.Println(table(nodes, o.detail, o.os))
	}
	if meta.NextToken != "" {
		e.Printf("\nResults have been paginated. To get the next page run:\n\nnomad node status -page-token %s\n", meta.NextToken)
	}
	return nil
}

// counted prints the list with the number of running allocations of each node.
func (o *statusOptions) counted(ctx context.Context, e *term.Env, c *api.Client, nodes []*api.NodeListStub) error {
	lines := strings.Split(table(nodes, o.detail, o.os), "\n")
	out := []string{lines[0] + "  Running Allocs"}
	for i, n := range nodes {
		allocs, _, err := c.Nodes().Allocations(n.ID, (&api.QueryOptions{}).WithContext(ctx))
		if err != nil {
			return fmt.Errorf("Error querying node allocations: %w", err)
		}
		running := 0
		for _, a := range allocs {
			if a.ClientStatus == api.AllocClientStatusRunning {
				running++
			}
		}
		out = append(out, fmt.Sprintf("%s  %d", lines[i+1], running))
	}
	e.Println(strings.Join(out, "\n"))
	return nil
}

func (o *statusOptions) one(ctx context.Context, e *term.Env) error {
	find := find
	if o.self {
		find = findOwn
	}
	c, n, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	if o.formats.Wanted() {
		return o.formats.Print(e, n)
	}
	allocs, _, err := c.Nodes().Allocations(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying node allocations: %w", err)
	}
	if o.short {
		e.Println(o.describe(n, nil, allocs))
		o.allocations(e, allocs)
		return nil
	}
	stats, statsErr := c.Nodes().Stats(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if statsErr != nil {
		stats = nil
	}
	e.Println(o.describe(n, stats, allocs))
	if o.detail {
		identitySection(ctx, e, c, n)
		o.vaultSection(ctx, e, c, n)
		hostVolumes(e, n)
		csiVolumes(ctx, e, c, n)
		hostNetworks(e, n)
		o.drivers(e, n)
		devices(e, n)
	}
	o.events(e, n)
	allocated(e, n, allocs)
	assigned(e, n, allocs)
	if statsErr != nil {
		e.Println("\n" + e.Bold(fmt.Sprintf("error fetching node stats: actual resource usage not present: %v", statsErr)))
	} else {
		if u, err := usageOf(ctx, c, allocs); err == nil { // else the rest is still useful
			utilization(e, n, u)
		}
		used(e, n, stats)
		deviceUsage(e, stats)
		if o.stats {
			usedEach(e, stats)
			deviceUsageEach(e, stats)
		}
	}
	o.allocations(e, allocs)
	if o.detail {
		attributes(e, "Attributes", n.Attributes)
		attributes(e, "Meta", n.Meta)
	}
	return nil
}

// describe formats the general data of a node and the volumes of its allocations. Stats may be nil.
func (o *statusOptions) describe(n *api.Node, stats *api.HostStats, allocs []*api.Allocation) string {
	rows := []string{
		term.Row("ID", n.ID), term.Row("Name", n.Name), term.Row("Node Pool", n.NodePool),
		term.Row("Class", n.NodeClass), term.Row("DC", n.Datacenter), term.Row("Drain", drain(n)),
		term.Row("Eligibility", n.SchedulingEligibility), term.Row("Status", n.Status),
		term.Row("CSI Controllers", plugins(n.CSIControllerPlugins)), term.Row("CSI Drivers", plugins(n.CSINodePlugins)),
	}
	if stats != nil {
		rows = append(rows, term.Row("Uptime", time.Duration(stats.Uptime)*time.Second))
	}
	if !o.detail {
		rows = append(rows, term.Row("Host Volumes", names(n.HostVolumes)), term.Row("Host Networks", names(n.HostNetworks)),
			term.Row("CSI Volumes", strings.Join(csiSources(allocs), ",")), term.Row("Driver Status", driverLine(n)))
	}
	return term.Pairs(rows)
}

// drain formats the drain status of a node.
func drain(n *api.Node) string {
	d := n.DrainStrategy
	if d == nil {
		return strconv.FormatBool(n.Drain)
	}
	out := "true"
	switch {
	case d.Deadline < 0:
		out += "; force drain"
	case d.ForceDeadline.IsZero():
		out += "; no deadline"
	default:
		out += "; " + term.Time(d.ForceDeadline) + " deadline"
	}
	if d.IgnoreSystemJobs {
		out += "; ignoring system jobs"
	}
	return out
}

func names[T any](of map[string]T) string { return strings.Join(slices.Sorted(maps.Keys(of)), ",") }

func hostVolumes(e *term.Env, n *api.Node) {
	if len(n.HostVolumes) == 0 {
		return
	}
	rows := []string{"Name|ReadOnly|Source"}
	for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
		v := n.HostVolumes[name]
		rows = append(rows, term.Row(name, v.ReadOnly, v.Path))
	}
	e.Println("\n" + e.Bold("Host Volumes") + "\n" + term.Table(rows))
}

func hostNetworks(e *term.Env, n *api.Node) {
	if len(n.HostNetworks) == 0 {
		return
	}
	rows := []string{"Name|CIDR|Interface|ReservedPorts"}
	for _, name := range slices.Sorted(maps.Keys(n.HostNetworks)) {
		v := n.HostNetworks[name]
		rows = append(rows, term.Row(name, v.CIDR, v.Interface, v.ReservedPorts))
	}
	e.Println("\n" + e.Bold("Host Networks") + "\n" + term.Table(rows))
}

func driverLine(n *api.Node) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		switch d := n.Drivers[name]; {
		case d.Detected && d.Healthy:
			out = append(out, name)
		case d.Detected:
			out = append(out, name+" (unhealthy)")
		}
	}
	return strings.Join(out, ",")
}

func (o *statusOptions) drivers(e *term.Env, n *api.Node) {
	rows := []string{"Driver|Detected|Healthy|Message|Time|Isolation"}
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[name]
		rows = append(rows, term.Row(name, d.Detected, d.Healthy, d.HealthDescription, term.Time(d.UpdateTime),
			n.Attributes["driver."+name+".level"]))
	}
	e.Println("\n" + e.Bold("Drivers") + "\n" + term.Table(rows))
}

func (o *statusOptions) events(e *term.Env, n *api.Node) {
	rows := []string{"Time|Subsystem|Message"}
	if o.detail {
		rows[0] += "|Details"
	}
	for _, ev := range slices.Backward(n.Events) {
		cells := []any{term.Time(ev.Timestamp), ev.Subsystem, ev.Message}
		if o.detail {
			cells = append(cells, details(ev.Details))
		}
		rows = append(rows, term.Row(cells...))
	}
	e.Println("\n" + e.Bold("Node Events") + "\n" + term.Table(rows))
}

func details(of map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		out = append(out, key+" : "+of[key])
	}
	return strings.Join(out, ", ")
}

func (o *statusOptions) allocations(e *term.Env, allocs []*api.Allocation) {
	e.Println("\n" + e.Bold("Allocations"))
	if len(allocs) == 0 {
		e.Println("No allocations placed")
		return
	}
	slices.SortFunc(allocs, func(a, b *api.Allocation) int { return int(int64(b.CreateIndex) - int64(a.CreateIndex)) })
	rows := []string{"ID|Node ID|Task Group|Version|Desired|Status|Created|Modified"}
	if o.detail {
		rows[0] = "ID|Eval ID|Node ID|Node Name|Task Group|Version|Desired|Status|Created|Modified"
	}
	for _, a := range allocs {
		var version uint64
		if a.Job != nil && a.Job.Version != nil {
			version = *a.Job.Version
		}
		cells := []any{o.detail.ID(a.ID)}
		if o.detail {
			cells = append(cells, a.EvalID, a.NodeID, a.NodeName)
		} else {
			cells = append(cells, o.detail.ID(a.NodeID))
		}
		rows = append(rows, term.Row(append(cells, a.TaskGroup, version, a.DesiredStatus, a.ClientStatus,
			o.detail.Since(time.Unix(0, a.CreateTime)), o.detail.Since(time.Unix(0, a.ModifyTime)))...))
	}
	e.Println(term.Table(rows))
}

func attributes(e *term.Env, title string, of map[string]string) {
	if len(of) == 0 {
		return
	}
	rows := []string{}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		rows = append(rows, term.Row(k, of[k]))
	}
	e.Println("\n" + e.Bold(title) + "\n" + term.Pairs(rows))
}
