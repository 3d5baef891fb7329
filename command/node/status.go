package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
			f.BoolVar(&o.self, "self", false, "The node of the agent that is asked.")
			f.BoolVar(&o.short, "short", false, "Show less.")
			f.BoolVar(&o.stats, "stats", false, "Show what the machine uses.")
			f.BoolVar(&o.allocs, "allocs", false, "In the list, count the running allocations.")
			f.BoolVar(&o.quiet, "quiet", false, "In the list, print IDs only.")
			f.BoolVar(&o.os, "os", false, "In the list, show the operating system.")
			f.DetailVar(&o.detail, "Show full IDs, attributes and more.")
			f.StringVar(&o.filter, "filter", "", "In the list, an `expression` that nodes must meet.")
			f.IntVar(&o.perPage, "per-page", 0, "In the list, how many nodes to show.")
			f.StringVar(&o.pageToken, "page-token", "", "In the list, where to go on.")
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
			e.Println(o.detail.ID(n.ID))
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

// counted is the list with the number of running allocations of each node.
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
	look := find
	if o.self {
		look = findOwn
	}
	c, n, err := look(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	if o.formats.Wanted() {
		return o.formats.Print(e, n)
	}
	e.Println(o.describe(n))
	if o.short {
		return o.allocations(ctx, e, c, n)
	}
	if o.detail {
		identitySection(ctx, e, c, n)
		hostVolumes(e, n)
		o.drivers(e, n)
	}
	o.events(e, n)
	if err := o.resources(ctx, e, c, n); err != nil {
		return err
	}
	if err := o.allocations(ctx, e, c, n); err != nil {
		return err
	}
	if o.detail {
		attributes(e, "Attributes", n.Attributes)
	}
	attributes(e, "Meta", n.Meta)
	return nil
}

func (o *statusOptions) describe(n *api.Node) string {
	rows := []string{
		term.Row("ID", o.detail.ID(n.ID)), term.Row("Name", n.Name), term.Row("Node Pool", n.NodePool),
		term.Row("Class", n.NodeClass), term.Row("DC", n.Datacenter), term.Row("Drain", n.Drain),
		term.Row("Eligibility", n.SchedulingEligibility), term.Row("Status", n.Status),
	}
	if !o.detail {
		rows = append(rows, term.Row("Host Volumes", volumeLine(n)), term.Row("Driver Status", driverLine(n)))
	}
	return term.Pairs(rows)
}

func volumeLine(n *api.Node) string {
	if len(n.HostVolumes) == 0 {
		return "<none>"
	}
	return strings.Join(slices.Sorted(maps.Keys(n.HostVolumes)), ",")
}

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
	rows := []string{"Driver|Detected|Healthy|Message|Time"}
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[name]
		rows = append(rows, term.Row(name, d.Detected, d.Healthy, d.HealthDescription, term.Time(d.UpdateTime)))
	}
	e.Println("\n" + e.Bold("Drivers") + "\n" + term.Table(rows))
}

func (o *statusOptions) events(e *term.Env, n *api.Node) {
	rows := []string{"Time|Subsystem|Message"}
	for _, ev := range slices.Backward(n.Events) {
		rows = append(rows, term.Row(term.Time(ev.Timestamp), ev.Subsystem, ev.Message))
	}
	e.Println("\n" + e.Bold("Node Events") + "\n" + term.Table(rows))
}

// resources shows what is allocated of what the node has, and what is used.
func (o *statusOptions) resources(ctx context.Context, e *term.Env, c *api.Client, n *api.Node) error {
	allocs, _, err := c.Nodes().Allocations(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying node allocations: %w", err)
	}
	var cpu, memory, disk int64
	for _, a := range allocs {
		if a.ClientStatus != api.AllocClientStatusRunning && a.ClientStatus != api.AllocClientStatusPending || a.AllocatedResources == nil {
			continue
		}
		for _, t := range a.AllocatedResources.Tasks {
			cpu += t.Cpu.CpuShares
			memory += t.Memory.MemoryMB
		}
		disk += a.AllocatedResources.Shared.DiskMB
	}
	r := n.NodeResources
	e.Println("\n" + e.Bold("Allocated Resources"))
	e.Println(term.Table([]string{"CPU|Memory|Disk", term.Row(
		fmt.Sprintf("%d/%d MHz", cpu, r.Cpu.CpuShares),
		fmt.Sprintf("%s/%s", term.Bytes(uint64(memory)<<20), term.Bytes(uint64(r.Memory.MemoryMB)<<20)),
		fmt.Sprintf("%s/%s", term.Bytes(uint64(disk)<<20), term.Bytes(uint64(r.Disk.DiskMB)<<20)))}))
	stats, err := c.Nodes().Stats(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		e.Println("\n" + e.Bold(fmt.Sprintf("error fetching node stats: actual resource usage not present: %v", err)))
		return nil
	}
	used(e, n, stats)
	if o.stats {
		usedEach(e, stats)
	}
	return nil
}

func used(e *term.Env, n *api.Node, s *api.HostStats) {
	e.Println("\n" + e.Bold("Host Resource Utilization"))
	rows := []string{"CPU|Memory|Disk"}
	disk := ""
	if d := s.AllocDirStats; d != nil {
		disk = term.Bytes(d.Used) + "/" + term.Bytes(d.Size)
	}
	e.Println(term.Table(append(rows, term.Row(fmt.Sprintf("%.0f/%d MHz", s.CPUTicksConsumed, n.NodeResources.Cpu.CpuShares),
		term.Bytes(s.Memory.Used)+"/"+term.Bytes(s.Memory.Total), disk))))
}

// usedEach shows the use of each processor and each disk.
func usedEach(e *term.Env, s *api.HostStats) {
	for _, cpu := range s.CPU {
		e.Println("\n" + term.Pairs([]string{term.Row("CPU", cpu.CPU), term.Row("User", percent(cpu.User)),
			term.Row("System", percent(cpu.System)), term.Row("Idle", percent(cpu.Idle))}))
	}
	for _, d := range s.DiskStats {
		e.Println("\n" + term.Pairs([]string{term.Row("Device", d.Device), term.Row("MountPoint", d.Mountpoint),
			term.Row("Size", term.Bytes(d.Size)), term.Row("Used", term.Bytes(d.Used)), term.Row("Available", term.Bytes(d.Available)),
			term.Row("Used Percent", percent(d.UsedPercent)), term.Row("Inodes Percent", percent(d.InodesUsedPercent))}))
	}
	e.Printf("\nUptime = %s\n", term.Duration(time.Duration(s.Uptime)*time.Second))
}

func percent(v float64) string { return fmt.Sprintf("%.2f%%", v) }

func (o *statusOptions) allocations(ctx context.Context, e *term.Env, c *api.Client, n *api.Node) error {
	allocs, _, err := c.Nodes().Allocations(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying node allocations: %w", err)
	}
	slices.SortFunc(allocs, func(a, b *api.Allocation) int { return int(int64(b.CreateIndex) - int64(a.CreateIndex)) })
	now := time.Now()
	rows := []string{"ID|Node ID|Task Group|Version|Desired|Status|Created|Modified"}
	for _, a := range allocs {
		var version uint64
		if a.Job != nil && a.Job.Version != nil {
			version = *a.Job.Version
		}
		rows = append(rows, term.Row(o.detail.ID(a.ID), o.detail.ID(a.NodeID), a.TaskGroup, version, a.DesiredStatus,
			a.ClientStatus, term.Ago(time.Unix(0, a.CreateTime), now), term.Ago(time.Unix(0, a.ModifyTime), now)))
	}
	e.Println("\n" + e.Bold("Allocations"))
	if len(allocs) == 0 {
		e.Println("No allocations placed")
		return nil
	}
	e.Println(term.Table(rows))
	return nil
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
