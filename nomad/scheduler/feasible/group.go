package feasible

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
)

// demand is one thing a node must have. Its text says so when a node has not.
type demand struct {
	text string
	met  func(*nomad.Node) bool
}

// Group is what one task group, with its job and tasks, demands of a node's
// properties. Demands that count allocations (distinct_hosts,
// distinct_property) and amounts are not among them.
type Group struct {
	class  []demand // nodes of a computed class answer alike
	unique []demand
	each   []*nomad.VolumeRequest // per_alloc: another one for each allocation
}

// NewGroup gathers the demands of a group.
func NewGroup(job *nomad.Job, tg *nomad.TaskGroup) *Group {
	g := &Group{}
	g.constraints(job.Constraints)
	g.constraints(tg.Constraints)
	drivers := map[string]bool{}
	for _, t := range tg.Tasks {
		g.constraints(t.Constraints)
		if !drivers[t.Driver] {
			drivers[t.Driver] = true
			g.class = append(g.class, driverDemand(t.Driver))
		}
		if t.Resources != nil && len(t.Resources.Devices) > 0 {
			g.class = append(g.class, demand{"missing devices", func(*nomad.Node) bool { return false }})
		}
	}
	g.volumes(tg)
	for _, n := range tg.Networks {
		g.network(n)
	}
	return g
}

func (g *Group) constraints(list []*nomad.Constraint) {
	for _, c := range list {
		if IsDistinct(c) {
			continue
		}
		// A constraint that does not compile holds nowhere: registration
		// refuses it, an older state may still have one.
		compiled, _ := Compile(c.LTarget, c.Operand, c.RTarget)
		d := demand{compiled.String(), compiled.Holds}
		if compiled.Unique() {
			g.unique = append(g.unique, d)
		} else {
			g.class = append(g.class, d)
		}
	}
}

// IsDistinct says whether a constraint is about the job's other allocations
// rather than about the node.
func IsDistinct(c *nomad.Constraint) bool {
	return c.Operand == nomad.ConstraintDistinctHosts || c.Operand == nomad.ConstraintDistinctProperty
}

func driverDemand(name string) demand {
	return demand{"missing drivers", func(n *nomad.Node) bool {
		if info := n.Drivers[name]; info != nil {
			return info.Detected && info.Healthy
		}
		on, err := strconv.ParseBool(n.Attributes["driver."+name])
		return err == nil && on
	}}
}

// volumes of one name for all allocations are the same for all nodes of a class. Those
// that depend on the allocation are asked for one by one.
func (g *Group) volumes(tg *nomad.TaskGroup) {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		v := tg.Volumes[name]
		if v == nil {
			continue // an older state may have one: no task can mount it
		}
		if v.PerAlloc {
			g.each = append(g.each, v)
			continue
		}
		g.class = append(g.class, demand{missingVolume(v.Source), func(n *nomad.Node) bool { return n.MeetsVolume(v, "") }})
	}
}

func missingVolume(source string) string {
	return fmt.Sprintf("missing compatible host volume %q", source)
}

func (g *Group) network(ask *nomad.NetworkResource) {
	switch ask.Mode {
	case "", nomad.NetworkModeHost:
	case nomad.NetworkModeNone:
		g.class = append(g.class, demand{`missing network "none"`, func(n *nomad.Node) bool { return n.Attributes[nomad.AttrNetworkNone] != "false" }})
	default:
		g.class = append(g.class, demand{fmt.Sprintf("missing network %q", ask.Mode), func(n *nomad.Node) bool {
			return hasNetworkMode(n, ask.Mode)
		}})
	}
	for _, p := range slices.Concat(ask.ReservedPorts, ask.DynamicPorts) {
		if hostNetwork(&p) == defaultNetwork {
			continue
		}
		text := fmt.Sprintf("missing host network %q for port %q", p.HostNetwork, p.Label)
		g.class = append(g.class, demand{text, func(n *nomad.Node) bool { return hasHostNetwork(n, p.HostNetwork) }})
	}
}

func hasNetworkMode(n *nomad.Node, mode string) bool {
	if n.NodeResources == nil {
		return false
	}
	return slices.ContainsFunc(n.NodeResources.NodeNetworks, func(r *nomad.NodeNetworkResource) bool { return r != nil && r.Mode == mode }) ||
		slices.ContainsFunc(n.NodeResources.Networks, func(r *nomad.NetworkResource) bool { return r != nil && r.Mode == mode })
}

func hasHostNetwork(n *nomad.Node, name string) bool {
	if n.NodeResources == nil {
		return false
	}
	for _, r := range n.NodeResources.NodeNetworks {
		if r == nil {
			continue
		}
		for _, a := range r.Addresses {
			if a.Alias == name {
				return true
			}
		}
	}
	return false
}

// Escapes says whether some demand is about a single node or a single allocation, so
// that computed classes don't tell where the group fits.
func (g *Group) Escapes() bool { return len(g.unique)+len(g.each) > 0 }

// Check returns the first demand that the node does not meet, empty when it
// meets all.
func (g *Group) Check(n *nomad.Node) string {
	if why := firstUnmet(g.class, n); why != "" {
		return why
	}
	return firstUnmet(g.unique, n)
}

// CheckFor returns what the allocation of a name, beside its group, does not find on the
// node; empty when there is all.
func (g *Group) CheckFor(alloc string, n *nomad.Node) string {
	for _, v := range g.each {
		if !n.MeetsVolume(v, alloc) {
			return missingVolume(v.SourceFor(alloc))
		}
	}
	return ""
}

func firstUnmet(demands []demand, n *nomad.Node) string {
	for _, d := range demands {
		if !d.met(n) {
			return d.text
		}
	}
	return ""
}
