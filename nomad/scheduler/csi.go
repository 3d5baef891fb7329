package scheduler

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// csiSites are the CSI volumes of the job's namespace and their uses, as if the plan were committed. Each volume and each node
// is read from the state once, on first use, and then follows the plan.
type csiSites struct {
	volumes  map[string]*feasible.CSIVolume        // by ID; nil if it does not exist
	attached map[string]map[string]map[string]bool // by node and plugin, see State.CSIVolumesOnNode
	placed   map[string][]*nomad.Allocation        // by the plan, by volume
}

func newCSISites() *csiSites {
	return &csiSites{volumes: map[string]*feasible.CSIVolume{}, attached: map[string]map[string]map[string]bool{},
		placed: map[string][]*nomad.Allocation{}}
}

// volume returns a volume, or nil if it does not exist.
func (s *csiSites) volume(c *cluster, id string) *feasible.CSIVolume {
	v, known := s.volumes[id]
	if known {
		return v
	}
	if stored := c.snap.CSIVolume(nil, c.job.Namespace, id); stored != nil {
		v = feasible.NewCSIVolume(c.snap.ShownCSIVolume(nil, stored), feasible.CSIUsers{
			All:   c.snap.CSIVolumeUsers(nil, c.job.Namespace, id),
			Alloc: func(id string) *nomad.Allocation { return c.snap.Alloc(nil, id) },
			JobOf: func(a *nomad.Allocation) *nomad.Job { return a.Job },
		})
		for _, a := range s.placed[id] {
			v.Add(a, jobOf(c, a))
		}
	}
	s.volumes[id] = v
	return v
}

// onNode returns the volumes that a node has attached or will attach, by plugin.
func (s *csiSites) onNode(c *cluster, node string) map[string]map[string]bool {
	on := s.attached[node]
	if on != nil {
		return on
	}
	on = map[string]map[string]bool{}
	for plugin, keys := range c.snap.CSIVolumesOnNode(node) {
		on[plugin] = maps.Clone(keys)
	}
	s.attached[node] = on
	for _, a := range c.plan.NodeAllocation[node] {
		if a.CreateIndex == 0 {
			s.attach(c, a)
		}
	}
	return on
}

// attach adds the volumes of an allocation to those of its node.
func (s *csiSites) attach(c *cluster, a *nomad.Allocation) {
	on := s.attached[a.NodeID]
	for _, r := range a.CSIRequests(jobOf(c, a)) {
		if v := s.volume(c, r.SourceFor(a.Name)); v != nil {
			if on[v.PluginID] == nil {
				on[v.PluginID] = map[string]bool{}
			}
			on[v.PluginID][csiKey(v)] = true
		}
	}
}

func csiKey(v *feasible.CSIVolume) string { return v.Namespace + "/" + v.ID }

// places records a new allocation of the plan.
func (s *csiSites) places(c *cluster, a *nomad.Allocation) {
	seen := map[string]bool{}
	for _, r := range a.CSIRequests(jobOf(c, a)) {
		source := r.SourceFor(a.Name)
		if seen[source] {
			continue
		}
		seen[source] = true
		s.placed[source] = append(s.placed[source], a)
		if v := s.volumes[source]; v != nil {
			v.Add(a, jobOf(c, a))
		}
	}
	if s.attached[a.NodeID] != nil {
		s.attach(c, a)
	}
}

// withdraws undoes places for an allocation that is not in the plan.
func (s *csiSites) withdraws(c *cluster, a *nomad.Allocation) {
	for _, r := range a.CSIRequests(jobOf(c, a)) {
		source := r.SourceFor(a.Name)
		s.placed[source] = slices.DeleteFunc(s.placed[source], func(p *nomad.Allocation) bool { return p.ID == a.ID })
		if v := s.volumes[source]; v != nil {
			v.Remove(a.ID)
		}
	}
	delete(s.attached, a.NodeID)
}

// csiSearch is a search for a node with the CSI volumes of a group. A nil search refuses no node.
type csiSearch struct {
	requests []*nomad.VolumeRequest
	// For the allocation of the search:
	wants    []feasible.CSIWant
	previous *nomad.Allocation // which ends before it starts, or nil
	waits    map[string]bool   // the volumes that are not free, see nomad.Evaluation.MissingNonNodeResources
}

func newCSISearch(tg *nomad.TaskGroup) *csiSearch {
	requests := tg.CSIRequests()
	if len(requests) == 0 {
		return nil
	}
	return &csiSearch{requests: requests}
}

// aim prepares the search for an allocation that replaces the previous one, if any. The claim of the previous one does not count:
// the client of the new one waits until it is free.
func (s *csiSearch) aim(c *cluster, g *groupStack, previous *nomad.Allocation) {
	if s == nil {
		return
	}
	s.previous, s.waits, s.wants = g.previous, map[string]bool{}, s.wants[:0]
	next := &nomad.Allocation{Namespace: c.job.Namespace, JobID: c.job.ID, Name: g.alloc}
	ends := func(a *nomad.Allocation) bool { return c.ends(a) || previous != nil && a.ID == previous.ID }
	for _, r := range s.requests {
		w := feasible.NewCSIWant(r, next, c.csi.volume(c, r.SourceFor(g.alloc)), ends)
		s.wants = append(s.wants, w)
		if resource := w.Waits(); resource != "" {
			s.waits[resource] = true
		}
	}
}

// refuse returns why the volumes exclude the allocation from a node.
func (s *csiSearch) refuse(c *cluster, n *nomad.Node) feasible.CSIRefusal {
	if s == nil {
		return feasible.CSIRefusal{}
	}
	return feasible.CheckCSI(s.wants, n, s.attached(c, n))
}

// explain calls f with each check of refuse.
func (s *csiSearch) explain(c *cluster, n *nomad.Node, f func(feasible.Check)) {
	if s != nil {
		feasible.ExplainCSI(s.wants, n, s.attached(c, n), f)
	}
}

// attached returns the volumes that a node has when the previous allocation has ended.
func (s *csiSearch) attached(c *cluster, n *nomad.Node) feasible.CSIAttached {
	return func(plugin string) map[string]bool {
		on := c.csi.onNode(c, n.ID)[plugin]
		if s.previous == nil || s.previous.NodeID != n.ID {
			return on
		}
		rest := maps.Clone(on)
		for _, r := range s.previous.CSIRequests(s.previous.Job) {
			if v := c.csi.volume(c, r.SourceFor(s.previous.Name)); v != nil && !v.OnNodeBeside(n.ID, func(id string) bool { return id == s.previous.ID }) {
				delete(rest, csiKey(v))
			}
		}
		return rest
	}
}
