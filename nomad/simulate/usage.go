package simulate

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// Usage is the usage of the ready and eligible nodes of a datacenter.
type Usage struct {
	Datacenter string
	Nodes      int
	CPU        Amount // MHz
	MemoryMB   Amount
	DiskMB     Amount
}

// Amount is one resource of the nodes of a datacenter.
type Amount struct {
	Capacity int64
	Used     int64
	// LargestFree is the largest amount that is free on one node. A larger request does not fit, even if the sum of
	// the free amounts is larger.
	LargestFree int64
}

// add counts one node.
func (a *Amount) add(capacity, used int64) {
	a.Capacity += capacity
	a.Used += used
	a.LargestFree = max(a.LargestFree, capacity-used)
}

// Usage returns the usage of each datacenter now, sorted by name.
func (c *Cluster) Usage() []Usage {
	snap := c.Snapshot()
	byDC := map[string]*Usage{}
	for n := range snap.Nodes(nil) {
		if !n.Ready() || n.NodeResources == nil {
			continue
		}
		u := byDC[n.Datacenter]
		if u == nil {
			u = &Usage{Datacenter: n.Datacenter}
			byDC[n.Datacenter] = u
		}
		var used nomad.Used
		for a := range snap.LiveAllocsByNode(n.ID) {
			used.Add(a.AllocatedResources.Flatten(), 1)
		}
		room := feasible.Capacity(n)
		u.Nodes++
		u.CPU.add(room.CPU, used.CPU)
		u.MemoryMB.add(room.MemoryMB, used.MemoryMB)
		u.DiskMB.add(room.DiskMB, used.DiskMB)
	}
	out := []Usage{}
	for _, u := range slices.SortedFunc(maps.Values(byDC), func(a, b *Usage) int { return strings.Compare(a.Datacenter, b.Datacenter) }) {
		out = append(out, *u)
	}
	return out
}
