package feasible

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
)

// Volumes shared by all allocations are the same on all nodes of a class, if they are static. Whether a dynamic volume
// serves a request depends on the node. per_alloc volumes are checked for each allocation.
func (g *Group) volumes(tg *nomad.TaskGroup) {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		v := tg.Volumes[name]
		if v == nil {
			continue // an older state may contain one; no task can mount it
		}
		if v.Type == nomad.VolumeTypeCSI { // see CheckCSI
			g.csi, g.csiEach = true, g.csiEach || v.PerAlloc
			continue
		}
		if v.PerAlloc {
			g.each = append(g.each, v)
			continue
		}
		g.add(false, demand{check: CheckVolumes, text: missingVolume(v.Source), need: hostVolume(v.Source),
			met: func(n *nomad.Node) bool { return n.MeetsVolume(v, "") }})
		g.add(true, demand{check: CheckVolumes, text: missingVolume(v.Source), need: hostVolume(v.Source) + " in the modes of the request",
			met:     func(n *nomad.Node) bool { return g.serves(v, "", n) == "" },
			found:   func(n *nomad.Node) string { return g.serves(v, "", n) },
			dynamic: func(n *nomad.Node) bool { have := n.HostVolumes[v.Source]; return have != nil && have.ID != "" }})
	}
}

// serves returns why the node's volume of the name does not serve a request, or "".
func (g *Group) serves(r *nomad.VolumeRequest, alloc string, n *nomad.Node) string {
	source := r.SourceFor(alloc)
	have := n.HostVolumes[source]
	switch {
	case !n.MeetsVolume(r, alloc):
		return "missing"
	case have.ID == "" && r.Sticky:
		return "a static volume cannot be sticky"
	case have.ID == "" || g.rules.Volumes == nil:
		return ""
	}
	v := g.rules.Volumes(n.ID, source)
	switch {
	case v == nil || v.ID != have.ID || v.Namespace != g.namespace:
		return "not in the namespace of the job"
	case v.State != hostvolume.Ready:
		return "state is " + string(v.State)
	case !v.Serves(r, g.namespace):
		return "the volume lacks the capability"
	}
	return ""
}

func missingVolume(source string) string {
	return fmt.Sprintf("missing compatible host volume %q", source)
}

func hostVolume(source string) string { return fmt.Sprintf("host volume %q", source) }
