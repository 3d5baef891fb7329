package feasible

import (
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Dimensions that a node can exhaust, in addition to the "network: ..." texts.
const (
	DimensionCPU       = "cpu"
	DimensionCores     = "cores"
	DimensionMemory    = "memory"
	DimensionDisk      = "disk"
	DimensionMaxAllocs = "max allocation exceeded"
	DimensionPorts     = "network: port collision"
	// DimensionInvalidNode is that of a node whose reserved ports are not valid.
	DimensionInvalidNode = "network: invalid node"
)

// ErrNoResources means that a node never reported its resources.
var ErrNoResources = errors.New("node has no resources")

// Usage sums what the live allocations of one node hold. The cost of Add and Remove does not depend
// on the number of allocations.
type Usage struct {
	node     *nomad.Node
	capacity Used
	used     Used // excludes cores
	cores    map[uint16]int
	clashes  int // cores assigned more than once
	ports    *ports
	devices  map[instance]int
	shared   int // device instances assigned more than once
	version  uint64
	allocs   map[string]*nomad.Allocation

	// The last resources counted and their sum: allocations of a group often share one value.
	last     *nomad.AllocatedResources
	lastUsed Used
}

// NewUsage returns the usage of an empty node.
func NewUsage(node *nomad.Node) (*Usage, error) {
	if node == nil || node.NodeResources == nil {
		return nil, ErrNoResources
	}
	p, err := newPorts(node)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.ID, err)
	}
	return &Usage{
		node:     node,
		capacity: Capacity(node),
		cores:    map[uint16]int{},
		ports:    p,
		allocs:   map[string]*nomad.Allocation{},
	}, nil
}

// Add counts an allocation. It ignores one that its client has ended, or that is already counted.
func (u *Usage) Add(a *nomad.Allocation) {
	if a.ClientTerminalStatus() || a.AllocatedResources == nil || u.allocs[a.ID] != nil {
		return
	}
	u.allocs[a.ID] = a
	u.count(a.AllocatedResources, 1)
}

// Remove subtracts the allocation that Add counted under the ID.
func (u *Usage) Remove(id string) {
	a := u.allocs[id]
	if a == nil {
		return
	}
	delete(u.allocs, id)
	u.count(a.AllocatedResources, -1)
}

// Version returns a number that changes with each allocation that is added or removed.
func (u *Usage) Version() uint64 { return u.version }

func (u *Usage) count(r *nomad.AllocatedResources, sign int) {
	u.version++
	if r != u.last {
		u.last, u.lastUsed = r, r.Flatten()
	}
	u.used.Add(u.lastUsed, int64(sign))
	for _, id := range u.lastUsed.Cores {
		before := u.cores[id]
		after := before + sign
		switch {
		case before <= 1 && after > 1:
			u.clashes++
		case before > 1 && after <= 1:
			u.clashes--
		}
		u.cores[id] = after
	}
	u.ports.count(r, sign)
	u.countDevices(r, sign)
}

// Used returns the current usage.
func (u *Usage) Used() Used {
	out := u.used
	for id, n := range u.cores {
		if n > 0 {
			out.Cores = append(out.Cores, id)
		}
	}
	slices.Sort(out.Cores)
	return out
}

// Exhausted returns the first dimension whose usage exceeds the capacity, or "" if everything fits.
func (u *Usage) Exhausted() string {
	if max := u.node.NodeMaxAllocs; max > 0 && len(u.allocs) > max {
		return DimensionMaxAllocs
	}
	if why := u.over(Used{}); why != "" {
		return why
	}
	for id, n := range u.cores {
		if n > 0 && !slices.Contains(u.capacity.Cores, id) {
			return DimensionCores
		}
	}
	if u.clashes > 0 {
		return DimensionCores
	}
	if u.ports.clashes > 0 {
		return DimensionPorts
	}
	if u.shared > 0 {
		return DimensionSharedDevices
	}
	return ""
}

// amount is one dimension of a node, and what an allocation asks of it.
type amount struct {
	dimension, unit       string
	capacity, used, asked int64
}

func (a *amount) fits() bool { return a.used+a.asked <= a.capacity }

// amounts returns the dimensions of a node that are sums.
func (u *Usage) amounts(more Used) [3]amount {
	return [3]amount{
		{DimensionCPU, " MHz", u.capacity.CPU, u.used.CPU, more.CPU},
		{DimensionMemory, " MiB", u.capacity.MemoryMB, u.used.MemoryMB, more.MemoryMB},
		{DimensionDisk, " MiB", u.capacity.DiskMB, u.used.DiskMB, more.DiskMB},
	}
}

// over returns the first dimension that more would exhaust.
func (u *Usage) over(more Used) string {
	for _, a := range u.amounts(more) {
		if !a.fits() {
			return a.dimension
		}
	}
	return ""
}

// AllocsFit reports whether the node can hold all allocations that are not terminal, the exhausted
// dimension if not, and their total usage.
func AllocsFit(node *nomad.Node, allocs []*nomad.Allocation) (fit bool, dimension string, used Used, err error) {
	u, err := NewUsage(node)
	if err != nil {
		return false, "", Used{}, err
	}
	for _, a := range allocs {
		u.Add(a)
	}
	dimension = u.Exhausted()
	return dimension == "", dimension, u.Used(), nil
}
