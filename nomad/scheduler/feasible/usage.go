package feasible

import (
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// What a node can run out of, beside the "network: ..." texts.
const (
	DimensionCPU       = "cpu"
	DimensionCores     = "cores"
	DimensionMemory    = "memory"
	DimensionDisk      = "disk"
	DimensionMaxAllocs = "max allocations"
	DimensionPorts     = "network: port collision"
)

// ErrNoResources means that a node never said what it has.
var ErrNoResources = errors.New("node has no resources")

// Usage adds up what the live allocations of one node hold. Add and Remove
// cost the same however many there are.
type Usage struct {
	node     *nomad.Node
	capacity Used
	used     Used // without cores
	cores    map[uint16]int
	clashes  int // cores held more than once
	ports    *ports
	allocs   map[string]*nomad.Allocation

	// The last resources seen and their sum: allocations of a group often
	// share one value.
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

// Add counts an allocation; one that is over, or counted already, is left out.
func (u *Usage) Add(a *nomad.Allocation) {
	if a.TerminalStatus() || a.AllocatedResources == nil || u.allocs[a.ID] != nil {
		return
	}
	u.allocs[a.ID] = a
	u.count(a.AllocatedResources, 1)
}

// Remove gives back what Add counted under the ID.
func (u *Usage) Remove(id string) {
	a := u.allocs[id]
	if a == nil {
		return
	}
	delete(u.allocs, id)
	u.count(a.AllocatedResources, -1)
}

func (u *Usage) count(r *nomad.AllocatedResources, sign int) {
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
}

// Used returns what is held now.
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

// Exhausted names the first thing that is held beyond what the node has; it is
// empty when all fits.
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
	return ""
}

// over names what would be short if more were held as well.
func (u *Usage) over(more Used) string {
	switch {
	case u.used.CPU+more.CPU > u.capacity.CPU:
		return DimensionCPU
	case u.used.MemoryMB+more.MemoryMB > u.capacity.MemoryMB:
		return DimensionMemory
	case u.used.DiskMB+more.DiskMB > u.capacity.DiskMB:
		return DimensionDisk
	}
	return ""
}

// AllocsFit says whether the node can hold all the allocations that are not
// over, what is short if not, and what they hold together.
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
