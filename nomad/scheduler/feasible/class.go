package feasible

import "github.com/open-nomad/open-nomad/nomad"

// Eligibility remembers which computed classes meet the demands of each group
// of a job. What it learned is what a blocked evaluation waits for.
type Eligibility struct {
	groups  map[string]*Group
	classes map[classKey]string // why not, empty when eligible
	escaped bool
}

type classKey struct{ group, class string }

// NewEligibility starts knowing nothing about the job's groups.
func NewEligibility(job *nomad.Job) *Eligibility {
	e := &Eligibility{groups: map[string]*Group{}, classes: map[classKey]string{}}
	for _, tg := range job.TaskGroups {
		g := NewGroup(job, tg)
		e.groups[tg.Name] = g
		e.escaped = e.escaped || g.Escapes()
	}
	return e
}

// Check is Group.Check of the named group, asking once per computed class. A
// node without a class is asked each time. An unknown group fits nowhere.
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
	why, known := e.classes[key]
	if !known {
		why = firstUnmet(g.class, n)
		e.classes[key] = why
	}
	if why != "" {
		return why
	}
	return firstUnmet(g.unique, n)
}

// CheckFor is Group.CheckFor of the named group.
func (e *Eligibility) CheckFor(group, alloc string, n *nomad.Node) string {
	if g := e.groups[group]; g != nil {
		return g.CheckFor(alloc, n)
	}
	return ""
}

// Differs says whether allocations of the group demand different things of a node.
func (e *Eligibility) Differs(group string) bool {
	g := e.groups[group]
	return g != nil && len(g.each) > 0
}

// Classes tells for each class seen whether some group could run there.
func (e *Eligibility) Classes() map[string]bool {
	out := map[string]bool{}
	for key, why := range e.classes {
		out[key.class] = out[key.class] || why == ""
	}
	return out
}

// Escaped says whether classes don't tell where the job fits.
func (e *Eligibility) Escaped() bool { return e.escaped }
