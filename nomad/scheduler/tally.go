package scheduler

import (
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// tally counts the job's live allocations by node, and by the node properties of spreads and
// distinct_property constraints.
type tally struct {
	lookup func(id string) *nomad.Node
	live   []*nomad.Allocation // as loaded, for properties added later
	delta  []change
	byNode map[string]int // of all groups
	byspot map[spot]*int
	watch  []*property
}

// change is an allocation that the plan added or removed.
type change struct {
	alloc *nomad.Allocation
	by    int
}

type spot struct{ group, node string }

// property counts allocations by a value of their nodes.
type property struct {
	target feasible.Target
	group  string // empty: all groups
	// listed, if not nil, are the values that are counted one by one. All others count as anyValue.
	listed map[string]float64
	counts map[string]*int
	// The extremes of the counts that are not 0. They are 0 until they are computed.
	least, most int
}

func newTally(lookup func(string) *nomad.Node) *tally {
	return &tally{lookup: lookup, byNode: map[string]int{}, byspot: map[spot]*int{}}
}

// load counts the allocations of the state.
func (t *tally) load(allocs []*nomad.Allocation) {
	for _, a := range allocs {
		if !a.TerminalStatus() {
			t.live = append(t.live, a)
			t.byNode[a.NodeID]++
			*t.spot(a.TaskGroup, a.NodeID)++
		}
	}
}

// spot returns the counter of a group on a node.
func (t *tally) spot(group, node string) *int {
	key := spot{group, node}
	n := t.byspot[key]
	if n == nil {
		n = new(int)
		t.byspot[key] = n
	}
	return n
}

func (t *tally) add(a *nomad.Allocation, by int) {
	t.delta = append(t.delta, change{a, by})
	t.byNode[a.NodeID] += by
	*t.spot(a.TaskGroup, a.NodeID) += by
	for _, p := range t.watch {
		p.add(t.lookup(a.NodeID), a.TaskGroup, by)
	}
}

// version returns a number that changes with each allocation that is added or removed.
func (t *tally) version() int { return len(t.delta) }

// property returns a counter that includes the allocations counted so far and is kept up to date.
func (t *tally) property(attribute, group string) *property {
	return t.propertyOf(attribute, group, nil)
}

// propertyOf is property with the values that are counted one by one.
func (t *tally) propertyOf(attribute, group string, listed map[string]float64) *property {
	p := &property{target: feasible.ParseTarget(attribute), group: group, listed: listed, counts: map[string]*int{}}
	for _, a := range t.live {
		p.add(t.lookup(a.NodeID), a.TaskGroup, 1)
	}
	for _, c := range t.delta {
		p.add(t.lookup(c.alloc.NodeID), c.alloc.TaskGroup, c.by)
	}
	t.watch = append(t.watch, p)
	return p
}

// add counts an allocation under the node's value. A node that does not exist or lacks the property
// is not counted.
func (p *property) add(n *nomad.Node, group string, by int) {
	if n == nil || p.group != "" && p.group != group {
		return
	}
	v, ok := p.target.Value(n)
	if !ok {
		return
	}
	p.least, p.most = 0, 0
	used := p.count(v)
	*used = max(*used+by, 0)
}

// count returns the counter of a value.
func (p *property) count(v string) *int {
	if _, one := p.listed[v]; p.listed != nil && !one {
		v = anyValue
	}
	n := p.counts[v]
	if n == nil {
		n = new(int)
		p.counts[v] = n
	}
	return n
}

// extremes returns the least and the most allocations of a value that has any. Both are 0 if no value has any.
func (p *property) extremes() (least, most int) {
	if p.most == 0 {
		for _, n := range p.counts {
			if *n > 0 && (p.least == 0 || *n < p.least) {
				p.least = *n
			}
			p.most = max(p.most, *n)
		}
	}
	return p.least, p.most
}

// distinct is a distinct_hosts or distinct_property constraint.
type distinct struct {
	text     string
	ofJob    bool // of the job, not of the group
	property *property
	limit    int
}

// distincts returns the constraints that count allocations.
func (t *tally) distincts(list []*nomad.Constraint, group string) []distinct {
	var out []distinct
	for _, c := range list {
		switch c.Operand {
		case nomad.ConstraintDistinctHosts:
			if on, err := strconv.ParseBool(c.RTarget); err == nil && !on {
				continue
			}
			out = append(out, distinct{text: c.Operand, ofJob: group == ""})
		case nomad.ConstraintDistinctProperty:
			d := distinct{property: t.property(c.LTarget, group), limit: 1, text: c.LTarget}
			if n, err := strconv.Atoi(c.RTarget); err == nil && n > 0 {
				d.limit = n
			}
			out = append(out, d)
		}
	}
	return out
}

// unmet returns why the group may not have one more allocation on the node.
func (d *distinct) unmet(t *tally, group string, n *nomad.Node) string {
	if d.property == nil {
		if d.ofJob && t.byNode[n.ID] > 0 || !d.ofJob && *t.spot(group, n.ID) > 0 {
			return d.text
		}
		return ""
	}
	v, ok := d.property.target.Value(n)
	if !ok {
		return "missing property " + strconv.Quote(d.text)
	}
	if used := *d.property.count(v); used >= d.limit {
		return nomad.ConstraintDistinctProperty + ": " + d.text + "=" + v + " used by " + strconv.Itoa(used) + " allocs"
	}
	return ""
}
