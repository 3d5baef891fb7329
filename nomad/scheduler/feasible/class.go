package feasible

import (
	"github.com/open-nomad/open-nomad/nomad"
)

// Eligibility caches which computed node classes meet the demands of each group of a job. A blocked
// evaluation records the result and waits for matching classes.
type Eligibility struct {
	groups  map[string]*Group
	classes map[classKey]verdict
	escaped bool
}

type classKey struct{ group, class string }

// NewEligibility returns an empty cache for the job's groups.
func NewEligibility(job *nomad.Job, rules Rules) *Eligibility {
	e := &Eligibility{groups: map[string]*Group{}, classes: map[classKey]verdict{}}
	for _, tg := range job.TaskGroups {
		g := NewGroup(job, tg, rules)
		e.groups[tg.Name] = g
		e.escaped = e.escaped || g.Escapes()
	}
	return e
}

// Check calls Group.Check for the named group, once per computed class. A node without a class is
// checked every time. An unknown group fits on no node.
func (e *Eligibility) Check(group string, n *nomad.Node) string {
	g := e.groups[group]
	if g == nil {
		return "unknown task group"
	}
	if n.ComputedClass == "" {
		e.escaped = true
		return g.Check(n)
	}
	key := classKey{group, n.ComputedClass}
	class, known := e.classes[key]
	if !known {
		class = g.ofClass(n)
		e.classes[key] = class
	}
	why := g.first(n, class)
	e.escaped = e.escaped || g.Escapes()
	return why
}

// CheckFor calls Group.CheckFor for the named group.
func (e *Eligibility) CheckFor(group, alloc string, n *nomad.Node) string {
	if g := e.groups[group]; g != nil {
		return g.CheckFor(alloc, n)
	}
	return ""
}

// Differs reports whether allocations of the group have different demands.
func (e *Eligibility) Differs(group string) bool {
	g := e.groups[group]
	return g != nil && (len(g.each) > 0 || g.csiEach)
}

// Classes returns, for each class seen, whether some group could run there.
func (e *Eligibility) Classes() map[string]bool {
	out := map[string]bool{}
	for key, v := range e.classes {
		out[key.class] = out[key.class] || v.why == ""
	}
	return out
}

// Escaped reports whether computed classes cannot determine where the job fits.
func (e *Eligibility) Escaped() bool { return e.escaped }

// Constraints tests which classes of nodes meet the constraints of a group, its job and its tasks.
// It excludes constraints on properties of a single node, and those that count allocations.
type Constraints struct{ group *Group }

// NewConstraints returns the constraints of a group.
func NewConstraints(job *nomad.Job, tg *nomad.TaskGroup) *Constraints {
	g := &Group{}
	g.constraints(job.Constraints)
	g.constraints(tg.Constraints)
	for _, t := range tg.Tasks {
		g.constraints(t.Constraints)
	}
	return &Constraints{g}
}

// Met reports whether the class of the node meets the constraints.
func (c *Constraints) Met(n *nomad.Node) bool { return c.group.ofClass(n).why == "" }
