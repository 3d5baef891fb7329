package feasible

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
)

// demand is one requirement on a node. Its text is the reason when a node does not meet it.
type demand struct {
	check string // name of the check
	text  string
	met   func(*nomad.Node) bool

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

// Group holds the demands of one task group, its job and its tasks on a node's properties. It
// excludes resource amounts and the constraints that count allocations (distinct_hosts,
// distinct_property).
type Group struct {
	class  []demand // same result for all nodes of a computed class
	unique []demand
	each   []*nomad.VolumeRequest // per_alloc: a different volume for each allocation
}

// NewGroup collects the demands of a group. Without configs, the config blocks of its tasks are not
// checked.
func NewGroup(job *nomad.Job, tg *nomad.TaskGroup, configs Configs) *Group {
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
		g.config(t, configs)
		if t.Resources != nil && len(t.Resources.Devices) > 0 {
			g.class = append(g.class, demand{check: CheckDevices, text: "missing devices", met: func(*nomad.Node) bool { return false }})
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
		// A constraint that does not compile holds on no node. Registration
		// rejects it, but an older state may contain one.
		compiled, _ := Compile(c.LTarget, c.Operand, c.RTarget)
		d := demand{check: CheckConstraint, text: compiled.String(), met: compiled.Holds, found: compiled.Found}
		if compiled.Unique() {
			g.unique = append(g.unique, d)
		} else {
			g.class = append(g.class, d)
		}
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

// Volumes shared by all allocations are the same on all nodes of a class. per_alloc
// volumes are checked for each allocation.
func (g *Group) volumes(tg *nomad.TaskGroup) {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		v := tg.Volumes[name]
		if v == nil {
			continue // an older state may contain one; no task can mount it
		}
		if v.PerAlloc {
			g.each = append(g.each, v)
			continue
		}
		g.class = append(g.class, demand{check: CheckVolumes, text: missingVolume(v.Source), need: hostVolume(v.Source),
			met: func(n *nomad.Node) bool { return n.MeetsVolume(v, "") }})
	}
}

func missingVolume(source string) string {
	return fmt.Sprintf("missing compatible host volume %q", source)
}

func hostVolume(source string) string { return fmt.Sprintf("host volume %q", source) }

func (g *Group) network(ask *nomad.NetworkResource) {
	switch ask.Mode {
	case "", nomad.NetworkModeHost:
	case nomad.NetworkModeNone:
		g.class = append(g.class, demand{check: CheckNetwork, text: `missing network "none"`, need: `network mode "none"`, met: func(n *nomad.Node) bool { return n.Attributes[nomad.AttrNetworkNone] != "false" }})
	default:
		g.class = append(g.class, demand{check: CheckNetwork, text: fmt.Sprintf("missing network %q", ask.Mode), need: fmt.Sprintf("network mode %q", ask.Mode),
			met: func(n *nomad.Node) bool { return hasNetworkMode(n, ask.Mode) }})
	}
	for _, p := range slices.Concat(ask.ReservedPorts, ask.DynamicPorts) {
		if hostNetwork(&p) == defaultNetwork {
			continue
		}
		text := fmt.Sprintf("missing host network %q for port %q", p.HostNetwork, p.Label)
		g.class = append(g.class, demand{check: CheckNetwork, text: text, need: fmt.Sprintf("host network %q for port %q", p.HostNetwork, p.Label),
			met: func(n *nomad.Node) bool { return hasHostNetwork(n, p.HostNetwork) }})
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

// Escapes reports whether a demand depends on a single node or a single allocation. Computed
// classes then cannot determine where the group fits.
func (g *Group) Escapes() bool { return len(g.unique)+len(g.each) > 0 }

// Check returns the first demand that the node does not meet, or "".
func (g *Group) Check(n *nomad.Node) string {
	if why := firstUnmet(g.class, n); why != "" {
		return why
	}
	return firstUnmet(g.unique, n)
}

// CheckFor returns the first demand of the group, or of the named allocation, that the node does
// not meet, or "".
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
			return d.why(n)
		}
	}
	return ""
}
