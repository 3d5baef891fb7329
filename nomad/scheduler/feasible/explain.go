package feasible

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Check is the result of one check of a node. Need comes from the job, Found from the node.
type Check struct {
	Name   string // such as CheckConstraint
	Passed bool
	Need   string
	Found  string // may be empty
}

// Names of checks.
const (
	CheckConstraint = "constraint"
	CheckDriver     = "driver"
	CheckConfig     = "config"
	CheckLevel      = "level"
	CheckPrivilege  = "privilege"
	CheckDevices    = "devices"
	CheckVolumes    = "volumes"
	CheckNetwork    = "network"
	CheckSecrets    = "secrets"
	CheckResources  = "resources"
	CheckPorts      = "ports"
)

// Explain calls f with the result of each demand of the group and of the named allocation, in the
// order of Check and CheckFor.
func (g *Group) Explain(alloc string, n *nomad.Node, f func(Check)) {
	for i := range g.demands {
		f(g.demands[i].explain(n))
	}
	for _, v := range g.each {
		why := g.serves(v, alloc, n)
		f(Check{Name: CheckVolumes, Need: hostVolume(v.SourceFor(alloc)), Passed: why == "", Found: why})
	}
}

func (d *demand) explain(n *nomad.Node) Check {
	out := Check{Name: d.check, Need: d.need, Passed: d.met(n)}
	if out.Need == "" {
		out.Need = d.text
	}
	if d.found != nil {
		out.Found = d.found(n)
	}
	return out
}

// Explain calls Group.Explain for the named group. It ignores the cache.
func (e *Eligibility) Explain(group, alloc string, n *nomad.Node, f func(Check)) {
	if g := e.groups[group]; g != nil {
		g.Explain(alloc, n, f)
	}
}

// Explain calls f with the result of each check of Fit, with its numbers.
func (u *Usage) Explain(ask *Ask, rng *rand.Rand, f func(Check)) {
	if limit := u.node.NodeMaxAllocs; limit > 0 {
		f(Check{Name: CheckResources, Passed: len(u.allocs) < limit, Need: "1 allocation",
			Found: fmt.Sprintf("%d of %d used", len(u.allocs), limit)})
	}
	for _, a := range u.amounts(ask.use) {
		f(Check{Name: CheckResources, Passed: a.fits(), Need: fmt.Sprintf("%s %d%s", a.dimension, a.asked, a.unit),
			Found: fmt.Sprintf("%d of %d%s free", a.capacity-a.used, a.capacity, a.unit)})
	}
	if !ask.picks {
		return
	}
	out := ask.fresh()
	if ports := ask.ports(); ports != "" {
		why := u.pickPorts(ask, out, rng)
		f(Check{Name: CheckPorts, Passed: why == "", Need: ports, Found: why})
	}
	if len(ask.devices) > 0 {
		why := u.pickDevices(ask, out, nil)
		f(Check{Name: CheckDevices, Passed: why == "", Need: ask.deviceNames(), Found: why})
	}
	if ask.cores {
		why := u.pickCores(ask, out, nil)
		f(Check{Name: CheckResources, Passed: why == "", Need: fmt.Sprintf("%s %d", DimensionCores, ask.coreCount()),
			Found: fmt.Sprintf("%d of %d free", len(u.freeCores(nil)), len(u.capacity.Cores))})
	}
	if names := ask.numaNames(); names != "" {
		why := u.pickNUMA(ask, out)
		f(Check{Name: CheckResources, Passed: why == "", Need: "numa: cores and " + names + " on one NUMA node", Found: why})
	}
}

// ports describes the ports that an allocation needs.
func (ask *Ask) ports() string {
	static, dynamic := "", 0
	for _, n := range ask.networks() {
		for _, p := range n.ReservedPorts {
			if static != "" {
				static += ", "
			}
			static += fmt.Sprintf("%s=%d", p.Label, p.Value)
		}
		dynamic += len(n.DynamicPorts)
	}
	switch {
	case dynamic == 0:
		return static
	case static == "":
		return fmt.Sprintf("%d dynamic", dynamic)
	}
	return fmt.Sprintf("%s, %d dynamic", static, dynamic)
}

// networks returns the networks of the group and its tasks.
func (ask *Ask) networks() (out []*nomad.NetworkResource) {
	out = append(out, ask.group.Networks...)
	for _, t := range ask.group.Tasks {
		if t.Resources != nil {
			out = append(out, t.Resources.Networks...)
		}
	}
	return out
}

// deviceNames describes the devices that an allocation needs, by task.
func (ask *Ask) deviceNames() string {
	var all []*deviceAsk
	for _, t := range ask.group.Tasks {
		all = append(all, ask.devices[t.Name]...)
	}
	return deviceNames(all)
}

// numaNames describes the devices that must be on the NUMA node of the cores, by task.
func (ask *Ask) numaNames() string {
	var all []*deviceAsk
	for _, t := range ask.joint {
		if t.Resources.NUMA.Affinity == nomad.RequireNUMA {
			all = append(all, ask.devices[t.Name]...)
		}
	}
	return deviceNames(slices.DeleteFunc(all, func(d *deviceAsk) bool { return !d.numa }))
}

func (ask *Ask) coreCount() (n int) {
	for _, t := range ask.group.Tasks {
		if t.Resources != nil {
			n += t.Resources.Cores
		}
	}
	return n
}
