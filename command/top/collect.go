package top

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Limits of a snapshot.
const (
	maxNodes  = 100
	maxAllocs = 500
	// maxListed is the number of allocations that are read from the servers.
	maxListed = 5000
	atOnce    = 8
	// oneRequest is the time for the usage of one node or allocation.
	oneRequest = 5 * time.Second
)

// collector reads snapshots.
type collector struct {
	client    *api.Client
	options   *options
	namespace string // "" for all
}

// snapshot reads the lists and then the usage of each node and allocation.
func (c *collector) snapshot(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{Time: time.Now(), Nodes: []*Node{}, Allocations: []*Alloc{}}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return nil, err
	}
	allocs, more, err := c.allocs(ctx, nodes)
	if err != nil {
		return nil, err
	}
	s.AllocationsNotListed = more
	running := map[string]int{}
	for _, a := range allocs {
		running[a.NodeID]++
	}
	slices.SortStableFunc(allocs, func(a, b *Alloc) int { // those that reserve most are measured
		return (&Usage{CPU: a.CPUTotal, Memory: a.MemoryTotal}).compare(&Usage{CPU: b.CPUTotal, Memory: b.MemoryTotal}, c.options.sort)
	})
	if n := len(allocs) - c.options.maxAllocations; n > 0 {
		allocs, s.AllocationsNotMeasured = allocs[:c.options.maxAllocations], n
	}
	if n := len(nodes) - maxNodes; n > 0 {
		nodes, s.NodesNotMeasured = nodes[:maxNodes], n
	}
	for _, n := range nodes {
		n.Allocations = running[n.ID]
	}
	s.Nodes, s.Allocations = append(s.Nodes, nodes...), append(s.Allocations, allocs...)
	c.measure(ctx, s)
	return s, ctx.Err()
}

// nodes lists the nodes that the options select, busy ones first.
func (c *collector) nodes(ctx context.Context) ([]*Node, error) {
	q := (&api.QueryOptions{Params: map[string]string{"resources": "true"}}).WithContext(ctx)
	stubs, _, err := c.client.Nodes().List(q)
	if err != nil {
		return nil, fmt.Errorf("Error querying nodes: %w", err)
	}
	var out []*Node
	for _, n := range stubs {
		if want := c.options.node; want != "" && n.Name != want && !strings.HasPrefix(n.ID, want) {
			continue
		}
		x := &Node{ID: n.ID, Name: n.Name, Status: status(n)}
		if r := n.NodeResources; r != nil {
			x.CPUTotal, x.MemoryTotal = float64(r.Cpu.CpuShares), uint64(max(r.Memory.MemoryMB, 0))<<20
		}
		out = append(out, x)
	}
	if len(out) == 0 && c.options.node != "" {
		return nil, fmt.Errorf("No node(s) with name or prefix %q found", c.options.node)
	}
	slices.SortStableFunc(out, func(a, b *Node) int { return boolCompare(b.asks(), a.asks()) })
	return out, nil
}

// status returns the status of a node, with what a user changed about it.
func status(n *api.NodeListStub) string {
	switch {
	case n.Drain:
		return n.Status + ", draining"
	case n.SchedulingEligibility == api.NodeSchedulingIneligible:
		return n.Status + ", ineligible"
	}
	return n.Status
}

// asks reports whether the node can answer.
func (n *Node) asks() bool { return strings.HasPrefix(n.Status, api.NodeStatusReady) }

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// allocs lists the running allocations on nodes. more reports whether some were not read.
func (c *collector) allocs(ctx context.Context, nodes []*Node) (out []*Alloc, more bool, err error) {
	names := map[string]string{}
	for _, n := range nodes {
		names[n.ID] = n.Name
	}
	namespace := c.namespace
	if namespace == "" {
		namespace = api.AllNamespacesNamespace
	}
	q := (&api.QueryOptions{Namespace: namespace, Filter: `ClientStatus == "running"`, PerPage: maxListed,
		Params: map[string]string{"resources": "true", "task_states": "false"}}).WithContext(ctx)
	stubs, meta, err := c.client.Allocations().List(q)
	if err != nil {
		return nil, false, fmt.Errorf("Error querying allocations: %w", err)
	}
	for _, a := range stubs {
		name, shown := names[a.NodeID]
		if !shown || c.options.job != "" && a.JobID != c.options.job {
			continue
		}
		x := &Alloc{ID: a.ID, Namespace: a.Namespace, JobID: a.JobID, TaskGroup: a.TaskGroup, NodeID: a.NodeID, NodeName: name}
		if a.AllocatedResources != nil {
			for _, t := range a.AllocatedResources.Tasks {
				x.CPUTotal += float64(t.Cpu.CpuShares)
				x.MemoryTotal += uint64(max(t.Memory.MemoryMB, 0)) << 20
			}
		}
		out = append(out, x)
	}
	return out, meta.NextToken != "", nil
}

// measure asks each node for the usage of its host and of its allocations.
func (c *collector) measure(ctx context.Context, s *Snapshot) {
	slots := make(chan struct{}, atOnce)
	var work sync.WaitGroup
	ask := func(request func(context.Context) error, failed *string) {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, oneRequest)
			defer cancel()
			if err := request(ctx); err != nil {
				*failed = err.Error()
			}
		})
	}
	answers := map[string]bool{}
	for _, n := range s.Nodes {
		if answers[n.ID] = n.asks(); n.asks() {
			ask(func(ctx context.Context) error { return c.host(ctx, n) }, &n.Error)
		}
	}
	for _, a := range s.Allocations {
		if answers[a.NodeID] {
			ask(func(ctx context.Context) error { return c.usage(ctx, a) }, &a.Error)
		}
	}
	work.Wait()
}

func (c *collector) host(ctx context.Context, n *Node) error {
	h, err := c.client.Nodes().Stats(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return err
	}
	n.Measured, n.CPU = true, h.CPUTicksConsumed
	if h.Memory != nil {
		n.Memory, n.MemoryTotal = h.Memory.Used, h.Memory.Total
	}
	return nil
}

func (c *collector) usage(ctx context.Context, a *Alloc) error {
	u, err := c.client.Allocations().Stats(&api.Allocation{ID: a.ID}, (&api.QueryOptions{Namespace: a.Namespace}).WithContext(ctx))
	if err != nil {
		return err
	}
	if u == nil || u.ResourceUsage == nil {
		return nil
	}
	a.Measured = len(u.Tasks) > 0
	if cpu := u.ResourceUsage.CpuStats; cpu != nil {
		a.CPU = cpu.TotalTicks
	}
	if m := u.ResourceUsage.MemoryStats; m != nil {
		a.Memory = max(m.RSS, m.Usage)
	}
	return nil
}
