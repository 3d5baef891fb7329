package feasible

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/kinds"
)

// demand is one requirement on a node. Its text is the reason when a node does not meet it.
type demand struct {
	check  string // name of the check
	text   string
	single bool // the result can differ between nodes of one computed class
	// dynamic reports whether it does so for this node. Nil means that it does for all nodes.
	dynamic func(*nomad.Node) bool
	met     func(*nomad.Node) bool

	// For explanations: what the job needs, if not the text, and what the node has.
	need  string
	found func(*nomad.Node) string
	// reason replaces the text if it depends on the node.
	reason func(*nomad.Node) string
}

// why returns the reason for a node that does not meet the demand.
func (d *demand) why(n *nomad.Node) string {
	if d.reason != nil {
		return d.reason(n)
	}
	return d.text
}

// Group holds the demands of one task group, its job and its tasks on a node's properties, in the order in which they
// are checked. It excludes resource amounts and the constraints that count allocations (distinct_hosts,
// distinct_property).
type Group struct {
	demands []demand
	each    []*nomad.VolumeRequest // per_alloc: a different volume for each allocation
	csi     bool                   // the group requests CSI volumes
	csiEach bool                   // with per_alloc

	rules     Rules
	namespace string // of the job
	escaped   bool   // a check depended on a single node, see demand.dynamic
}

// Rules are what decides about nodes beside a job. What is unset is not checked.
type Rules struct {
	Namespace *nomad.Namespace // of the job
	Kinds     kinds.Table      // the built-in kinds of drivers, for privilege
	Configs   Configs          // the schemas of config blocks
	// Volumes returns the dynamic host volume of a node with the name, or nil.
	Volumes func(node, name string) *hostvolume.Volume
}

// NewGroup collects the demands of a group.
func NewGroup(job *nomad.Job, tg *nomad.TaskGroup, rules Rules) *Group {
	g := &Group{rules: rules, namespace: job.Namespace}
	g.constraints(job.Constraints)
	g.drivers(tg, rules)
	g.isolation(rules.Namespace, tg)
	g.constraints(tg.Constraints)
	for _, t := range tg.Tasks {
		g.constraints(t.Constraints)
	}
	g.devices(tg)
	for _, n := range tg.Networks {
		g.network(n)
	}
	g.secrets(tg)
	g.volumes(tg)
	return g
}

// add appends a demand.
func (g *Group) add(single bool, d demand) {
	d.single = single
	g.demands = append(g.demands, d)
}

// drivers demands the drivers of all tasks, and what the tasks need of them.
func (g *Group) drivers(tg *nomad.TaskGroup, rules Rules) {
	seen := map[string]bool{}
	for _, t := range tg.Tasks {
		if !seen[t.Driver] {
			seen[t.Driver] = true
			g.add(false, driverDemand(t.Driver))
		}
	}
	for _, t := range tg.Tasks {
		g.add(false, privilegeDemand(t, rules.Kinds))
		g.config(t, rules.Configs)
	}
}

// secrets demands the providers of the tasks' secret blocks.
func (g *Group) secrets(tg *nomad.TaskGroup) {
	seen := map[string]bool{}
	for _, t := range tg.Tasks {
		for _, s := range t.Secrets {
			if s == nil || seen[s.Provider] {
				continue
			}
			seen[s.Provider] = true
			attribute := nomad.SecretsAttribute(s.Provider)
			g.add(false, demand{check: CheckSecrets, text: "missing secrets provider", need: fmt.Sprintf("secrets provider %q", s.Provider),
				met: func(n *nomad.Node) bool { _, ok := n.Attributes[attribute]; return ok }})
		}
	}
}

func (g *Group) constraints(list []*nomad.Constraint) {
	for _, c := range list {
		if IsDistinct(c) {
			continue
		}
		// A constraint that does not compile holds on no node. Registration
		// rejects it, but an older state may contain one.
		compiled, _ := Compile(c.LTarget, c.Operand, c.RTarget)
		d := demand{check: CheckConstraint, text: compiled.String(), met: compiled.Holds, found: compiled.Found}
		g.add(compiled.Unique(), d)
	}
}

// IsDistinct reports whether a constraint depends on the job's other allocations
// instead of on the node.
func IsDistinct(c *nomad.Constraint) bool {
	return c.Operand == nomad.ConstraintDistinctHosts || c.Operand == nomad.ConstraintDistinctProperty
}

func driverDemand(name string) demand {
	return demand{check: CheckDriver, text: "missing drivers", need: fmt.Sprintf("driver %q", name), met: func(n *nomad.Node) bool {
		if info := n.Drivers[name]; info != nil {
			return info.Detected && info.Healthy
		}
		on, err := strconv.ParseBool(n.Attributes["driver."+name])
		return err == nil && on
	}, found: func(n *nomad.Node) string {
		switch info := n.Drivers[name]; {
		case info == nil:
			return ""
		case !info.Detected:
			return cmp.Or(info.HealthDescription, "not detected")
		case !info.Healthy:
			return cmp.Or(info.HealthDescription, "unhealthy")
		}
		return "healthy"
	}}
}

// Escapes reports whether a demand depends on a single node or a single allocation. Computed
// classes then cannot determine where the group fits. A check of a node with a dynamic volume makes it true.
func (g *Group) Escapes() bool {
	return g.escaped || g.csi || len(g.each) > 0 || slices.ContainsFunc(g.demands, func(d demand) bool { return d.single && d.dynamic == nil })
}

// Check returns the first demand that the node does not meet, or "".
func (g *Group) Check(n *nomad.Node) string {
	return g.first(n, g.ofClass(n))
}

// verdict is the first demand that the nodes of a class do not meet, and the reason. If they meet all, at is the
// number of demands.
type verdict struct {
	at  int
	why string
}

// ofClass checks the demands that have the same result for all nodes of a computed class.
func (g *Group) ofClass(n *nomad.Node) verdict {
	for i := range g.demands {
		if d := &g.demands[i]; !d.single && !d.met(n) {
			return verdict{i, d.why(n)}
		}
	}
	return verdict{at: len(g.demands)}
}

// first returns the first demand that the node does not meet, given the verdict on its class, or "".
func (g *Group) first(n *nomad.Node, class verdict) string {
	for i := range g.demands[:class.at] {
		d := &g.demands[i]
		if d.single && d.dynamic != nil && d.dynamic(n) {
			g.escaped = true
		}
		if d.single && !d.met(n) {
			return d.why(n)
		}
	}
	return class.why
}

// CheckFor returns the first demand of the group, or of the named allocation, that the node does
// not meet, or "".
func (g *Group) CheckFor(alloc string, n *nomad.Node) string {
	for _, v := range g.each {
		if g.serves(v, alloc, n) != "" {
			return missingVolume(v.SourceFor(alloc))
		}
	}
	return ""
}
