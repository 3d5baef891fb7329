package top

import (
	"cmp"
	"slices"
	"time"
)

// The orders.
const (
	byCPU    = "cpu"
	byMemory = "memory"
)

// Snapshot is the usage of a cluster at one time. Its JSON is the output of -json.
type Snapshot struct {
	Time        time.Time
	Nodes       []*Node
	Allocations []*Alloc
	// NodesNotMeasured and AllocationsNotMeasured are the numbers over the limits.
	NodesNotMeasured, AllocationsNotMeasured int
	// AllocationsNotListed reports whether more than 5000 allocations run. The others are missing.
	AllocationsNotListed bool
}

// Usage is an amount in use, of an amount that exists or is reserved. CPU is in MHz, memory in
// bytes.
type Usage struct {
	CPU, CPUTotal       float64
	Memory, MemoryTotal uint64
}

// Node is the usage of a node.
type Node struct {
	ID, Name, Status string
	Usage
	// Allocations is the number of running allocations, as far as the caller may read them.
	Allocations int
	// Measured reports whether the node answered. Error is why it did not.
	Measured bool
	Error    string `json:",omitempty"`
}

// Alloc is the usage of an allocation. The totals are what it reserves.
type Alloc struct {
	ID, Namespace, JobID, TaskGroup, NodeID, NodeName string
	Usage
	Measured bool
	Error    string `json:",omitempty"`
}

// order sorts the snapshot, largest first.
func (s *Snapshot) order(by string) {
	slices.SortStableFunc(s.Nodes, func(a, b *Node) int {
		return cmp.Or(a.compare(&b.Usage, by), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	slices.SortStableFunc(s.Allocations, func(a, b *Alloc) int {
		return cmp.Or(a.compare(&b.Usage, by), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.ID, b.ID))
	})
}

// compare compares usages: the larger one is first.
func (u *Usage) compare(other *Usage, by string) int {
	cpu, memory := cmp.Compare(other.CPU, u.CPU), cmp.Compare(other.Memory, u.Memory)
	if by == byMemory {
		return cmp.Or(memory, cpu)
	}
	return cmp.Or(cpu, memory)
}
