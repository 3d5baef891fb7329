package reconcile

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// System reconciles a system or sysbatch job: one allocation of each group on each given node, or count
// allocations in a sysbatch job. The nodes must be ready and in the job's datacenters and pool, and are ordered. A sysbatch allocation
// that completed on a node is not run again there in the same version of the job.
func System(req *Request, nodes []*nomad.Node) *Result {
	s := &perNode{
		req:      req,
		out:      &Result{Desired: map[string]*nomad.DesiredUpdates{}, Totals: map[string]int{}},
		eligible: map[string]bool{},
		at:       map[spot][]*nomad.Allocation{},
		ended:    map[spot]*nomad.Allocation{},
		leave:    map[spot]bool{},
		begun:    map[string]bool{},
		once:     req.Eval.Type == nomad.JobTypeSysBatch,
	}
	s.rollout = newRollout(req, s.out)
	for _, n := range nodes {
		s.eligible[n.ID] = true
	}
	if !req.Job.Stopped() {
		s.differ = newDiffer(req.Job)
	}
	lostMeanwhile(req, s.out)
	for _, a := range req.Allocs {
		s.sort(a)
	}
	if req.Job.Stopped() {
		return s.out
	}
	for _, tg := range req.Job.TaskGroups {
		if tg.Count > 0 {
			s.group(tg, nodes)
		}
	}
	return s.out
}

// spot is one group on one node.
type spot struct{ group, node string }

type perNode struct {
	req      *Request
	out      *Result
	differ   *differ
	rollout  *rollout
	eligible map[string]bool
	at       map[spot][]*nomad.Allocation // live, or completed and not to be repeated
	ended    map[spot]*nomad.Allocation   // the latest terminal one
	leave    map[spot]bool                // free spots that must stay free
	begun    map[string]bool              // the groups that have an allocation of this version, perhaps a terminal one
	once     bool
}

// sort stops allocations without a spot, and records the others by spot.
func (s *perNode) sort(a *nomad.Allocation) {
	d := s.out.desired(a.TaskGroup)
	if !s.req.Job.Stopped() && sameVersion(a, s.req.Job) {
		s.begun[a.TaskGroup] = true
	}
	if a.TerminalStatus() {
		s.sortEnded(a)
		return
	}
	node := s.req.Node(a.NodeID)
	var tg *nomad.TaskGroup
	if !s.req.Job.Stopped() {
		tg = s.req.Job.TaskGroup(a.TaskGroup)
	}
	switch c := classOf(a, node, tg, s.req.Now); {
	case c == disconnecting:
		d.Disconnect++
		s.out.Delay = append(s.out.Delay, Delay{Alloc: a, Unknown: true})
		return
	case c == unknown:
		d.Ignore++
		return
	case c == reconnecting:
		d.Reconnect++
		s.out.Reconnected = append(s.out.Reconnected, a)
	}
	switch {
	case gone(node), classOf(a, node, tg, s.req.Now) == lost:
		d.Stop++
		s.out.stop(a, NodeLost, nomad.AllocClientStatusLost)
	case tg == nil || tg.Count == 0:
		d.Stop++
		s.out.stop(a, NotNeeded, "")
	case isSet(a.DesiredTransition.Migrate):
		d.Migrate++
		s.out.stop(a, Tainted, "")
		if isSet(a.DesiredTransition.MigrateDisablePlacement) {
			s.leave[spot{a.TaskGroup, a.NodeID}] = true
		}
	case s.eligible[a.NodeID]:
		s.note(a)
	case node.Ready():
		d.Stop++
		s.out.stop(a, NodeUnfit, "")
	case s.differ.change(a, tg) != same: // draining or ineligible: nothing new runs there
		d.Stop++
		s.out.stop(a, NotNeeded, "")
	default:
		d.Ignore++
	}
}

// sortEnded records a terminal allocation.
func (s *perNode) sortEnded(a *nomad.Allocation) {
	if s.once && !s.req.Job.Stopped() && sameVersion(a, s.req.Job) {
		s.note(a)
	}
	k := spot{a.TaskGroup, a.NodeID}
	if last := s.ended[k]; last == nil || last.CreateIndex < a.CreateIndex {
		s.ended[k] = a
	}
}

func sameVersion(a *nomad.Allocation, job *nomad.Job) bool {
	return a.Job != nil && a.Job.Version == job.Version && a.Job.CreateIndex == job.CreateIndex
}

func (s *perNode) note(a *nomad.Allocation) {
	k := spot{a.TaskGroup, a.NodeID}
	s.at[k] = append(s.at[k], a)
}

// spots are the spots of one group.
type spots struct {
	tg      *nomad.TaskGroup
	desired *nomad.DesiredUpdates
	free    []vacancy
	// live are the allocations that stay. outdated are those of them that the current version must replace.
	live, outdated []*nomad.Allocation
	inPlace        int
}

// vacancy is a missing allocation of a spot.
type vacancy struct {
	node  string
	index int
	last  *nomad.Allocation // the latest terminal allocation there, or nil
}

// group reconciles one group on all nodes.
func (s *perNode) group(tg *nomad.TaskGroup, nodes []*nomad.Node) {
	g := &spots{tg: tg, desired: s.out.desired(tg.Name)}
	for _, n := range nodes {
		s.classify(g, n.ID)
	}
	s.out.Totals[tg.Name] = len(g.live) + len(g.free)
	c := s.newTrial(g)
	for _, v := range g.free {
		s.out.Place = append(s.out.Place, s.fill(g, c, v))
	}
	s.roll(g, c)
	s.join(g, c)
}

// classify classifies the spot of the group on a node, and stops superfluous allocations there.
func (s *perNode) classify(g *spots, node string) {
	k, size := spot{g.tg.Name, node}, s.size(g.tg)
	here := s.at[k]
	slices.SortFunc(here, func(a, b *nomad.Allocation) int {
		return cmp.Or(
			boolCompare(!a.TerminalStatus(), !b.TerminalStatus()),
			cmp.Compare(b.CreateIndex, a.CreateIndex),
			cmp.Compare(a.ID, b.ID))
	})
	for len(here) > size {
		if extra := here[len(here)-1]; !extra.TerminalStatus() {
			g.desired.Stop++
			s.out.stop(extra, NotNeeded, "")
		}
		here = here[:len(here)-1]
	}
	taken := map[int]bool{}
	for _, a := range here {
		taken[a.Index()] = true
		s.update(g, a)
	}
	if s.leave[k] {
		return
	}
	for i, missing := 0, size-len(here); missing > 0; i++ {
		if !taken[i] {
			missing--
			g.free = append(g.free, vacancy{node, i, s.ended[k]})
		}
	}
}

// size returns how many allocations of a group a node runs.
func (s *perNode) size(tg *nomad.TaskGroup) int {
	if s.once {
		return tg.Count
	}
	return 1
}

// update compares a remaining allocation of a spot with the job's version.
func (s *perNode) update(g *spots, a *nomad.Allocation) {
	if a.TerminalStatus() {
		g.desired.Ignore++
		return
	}
	switch c := s.differ.change(a, g.tg); {
	case c == same:
		g.desired.Ignore++
	case !s.req.Suits(a, g.tg):
		g.desired.Stop++
		s.out.stop(a, NodeUnfit, "")
		return
	case c == harmless:
		g.inPlace++
		g.desired.InPlaceUpdate++
		s.out.InPlace = append(s.out.InPlace, a)
	default:
		g.outdated = append(g.outdated, a)
	}
	g.live = append(g.live, a)
}
