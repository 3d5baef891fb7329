package scheduler

import (
	"maps"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
)

// sharedVolumes returns the volumes of a group that depend on other allocations, on claims or on other writers, by name.
func sharedVolumes(tg *nomad.TaskGroup) (out []*nomad.VolumeRequest) {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		if v := tg.Volumes[name]; v != nil && (v.Sticky || v.SingleWriter()) {
			out = append(out, v)
		}
	}
	return out
}

// volumesTaken returns why the volumes of a node are not free for one more allocation of the group, or "": the group has
// claims on other volumes, or another allocation writes to a volume with a single writer.
func (c *cluster) volumesTaken(g *groupStack, n *nomad.Node) string {
	for _, v := range g.shared {
		if v.Type != nomad.VolumeTypeHost {
			continue
		}
		source := v.SourceFor(g.alloc)
		if v.Sticky && !c.claimAllows(g.tg, source, n) {
			return missingVolume(source, "the group has a claim on another one")
		}
		if v.SingleWriter() && !v.ReadOnly && c.written(source, n, g.previous) {
			return missingVolume(source, "it has a single writer")
		}
	}
	return ""
}

func missingVolume(source, why string) string {
	return "missing compatible host volume " + strconv.Quote(source) + ": " + why
}

// claimAllows reports whether the volume of a node is one that the group has claimed and does not use, or the group has
// no such claim. A system job has an allocation on each node, whose volume cannot be another one.
func (c *cluster) claimAllows(tg *nomad.TaskGroup, source string, n *nomad.Node) bool {
	if onEveryNode(c.job.Type) {
		return true
	}
	claims := c.sites.claimsOf(c, tg.Name)
	if claims.unmet[source] == 0 {
		return true
	}
	have := n.HostVolumes[source]
	if have == nil {
		return false
	}
	claim := claims.byVolume[volumeID{source, have.ID}]
	return claim != nil && !claim.met()
}

// written reports whether an allocation of the node, or one that the plan places there, writes to the volume. An
// allocation that the servers stop writes until its client ends it. previous does not count: the new allocation starts
// after its end.
func (c *cluster) written(volume string, n *nomad.Node, previous *nomad.Allocation) bool {
	writers := c.sites.writersOf(c, n.ID)[volume]
	if previous != nil && previous.NodeID == n.ID && !previous.ClientTerminalStatus() && previous.WritesHostVolume(volume, previous.Job) {
		writers--
	}
	return writers > 0
}

// sites counts who uses the volumes of nodes, as if the plan were committed: the claims by group, and the writers by
// node. Each is read from the state once, on first use, and then follows the plan.
type sites struct {
	claims  map[string]*claims
	writers map[string]map[string]int // by node and volume
}

func newSites() sites {
	return sites{claims: map[string]*claims{}, writers: map[string]map[string]int{}}
}

// volumeID is the name of a volume and the ID of one volume with that name.
type volumeID struct{ name, id string }

// claims are the claims of a group.
type claims struct {
	byVolume map[volumeID]*claim
	byHolder map[string][]*claim // by the ID of the live allocation that holds it
	unmet    map[string]int      // by name of the volume
}

// claim is the right of a group to a volume. It is met while an allocation of the group uses the volume.
type claim struct {
	volume volumeID
	inUse  bool // its holder lives and does not stop
	placed bool // the plan places an allocation that uses the volume
}

func (c *claim) met() bool { return c.inUse || c.placed }

// set changes a claim and the number of those that are not met.
func (l *claims) set(c *claim, change func()) {
	before := c.met()
	change()
	switch after := c.met(); {
	case before && !after:
		l.unmet[c.volume.name]++
	case !before && after:
		l.unmet[c.volume.name]--
	}
}

// claimsOf returns the claims of a group.
func (s *sites) claimsOf(c *cluster, group string) *claims {
	l := s.claims[group]
	if l != nil {
		return l
	}
	l = &claims{byVolume: map[volumeID]*claim{}, byHolder: map[string][]*claim{}, unmet: map[string]int{}}
	s.claims[group] = l
	for stored := range c.snap.VolumeClaimsOf(c.job.Namespace, c.job.ID, group) {
		id := volumeID{stored.VolumeName, stored.VolumeID}
		l.byVolume[id] = &claim{volume: id}
		l.unmet[id.name]++
		l.byHolder[stored.AllocID] = append(l.byHolder[stored.AllocID], l.byVolume[id])
	}
	if len(l.byVolume) == 0 {
		return l
	}
	for a := range c.snap.AllocsByJob(nil, c.job.Namespace, c.job.ID) {
		for _, one := range l.byHolder[a.ID] {
			l.set(one, func() { one.inUse = !a.TerminalStatus() && !c.ends(a) })
		}
		if a.TerminalStatus() {
			delete(l.byHolder, a.ID)
		}
	}
	for node, list := range c.plan.NodeAllocation {
		for _, a := range list {
			if a.TaskGroup == group && a.CreateIndex == 0 {
				l.place(c.lookup(node))
			}
		}
	}
	return l
}

// place marks the claims on the volumes of a node as used.
func (l *claims) place(n *nomad.Node) {
	if n == nil {
		return
	}
	for name := range l.unmet {
		if have := n.HostVolumes[name]; have != nil {
			if one := l.byVolume[volumeID{name, have.ID}]; one != nil {
				l.set(one, func() { one.placed = true })
			}
		}
	}
}

// writersOf returns how many allocations of a node write to each of its volumes.
func (s *sites) writersOf(c *cluster, node string) map[string]int {
	out := s.writers[node]
	if out != nil {
		return out
	}
	out = map[string]int{}
	s.writers[node] = out
	for a := range c.snap.LiveAllocsByNode(node) {
		if !a.ClientTerminalStatus() {
			write(out, a, a.Job, 1)
		}
	}
	for _, a := range c.plan.NodeAllocation[node] {
		if a.CreateIndex == 0 {
			write(out, a, jobOf(c, a), 1)
		}
	}
	return out
}

func write(to map[string]int, a *nomad.Allocation, job *nomad.Job, n int) {
	for _, volume := range a.WrittenHostVolumes(job) {
		to[volume] += n
	}
}

// writes adds n to the writers of the volumes that an allocation uses on its node.
func (s *sites) writes(c *cluster, a *nomad.Allocation, n int) {
	c.change(a)
	if volumes := a.WrittenHostVolumes(jobOf(c, a)); len(volumes) > 0 {
		write(s.writersOf(c, a.NodeID), a, jobOf(c, a), n)
	}
}

// jobOf returns the job of an allocation of the plan.
func jobOf(c *cluster, a *nomad.Allocation) *nomad.Job {
	if a.Job == nil {
		return c.plan.Job
	}
	return a.Job
}

// stops records that the plan stops an allocation, or keeps it after all.
func (s *sites) stops(a *nomad.Allocation, stops bool) {
	if l := s.claims[a.TaskGroup]; l != nil {
		for _, one := range l.byHolder[a.ID] {
			l.set(one, func() { one.inUse = !stops })
		}
	}
}

// places records a new allocation of the plan.
func (s *sites) places(c *cluster, a *nomad.Allocation) {
	if l := s.claims[a.TaskGroup]; l != nil {
		l.place(c.lookup(a.NodeID))
	}
	if writers := s.writers[a.NodeID]; writers != nil {
		write(writers, a, jobOf(c, a), 1)
	}
}
