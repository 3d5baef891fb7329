package reconcile

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// System reconciles a system or sysbatch job: one allocation of each group on each given node. The
// nodes must be ready and in the job's datacenters and pool. A sysbatch allocation that completed
// on a node is not run again there in the same version of the job.
func System(req *Request, nodes []*nomad.Node) *Result {
	s := &perNode{
		req:      req,
		out:      &Result{Desired: map[string]*nomad.DesiredUpdates{}},
		eligible: map[string]bool{},
		at:       map[spot][]*nomad.Allocation{},
		leave:    map[spot]bool{},
		updates:  map[string]int{},
		once:     req.Eval.Type == nomad.JobTypeSysBatch,
	}
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
		for _, n := range nodes {
			if tg.Count > 0 {
				s.settle(tg, n)
			}
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
	eligible map[string]bool
	at       map[spot][]*nomad.Allocation // live, or completed and not to be repeated
	leave    map[spot]bool                // free spots that must stay free
	updates  map[string]int               // destructive updates by group
	once     bool
}

// sort stops allocations without a spot, ignores terminal ones, and records the others by spot.
func (s *perNode) sort(a *nomad.Allocation) {
	d := s.out.desired(a.TaskGroup)
	if a.TerminalStatus() {
		if s.once && !s.req.Job.Stopped() && a.Job != nil && a.Job.Version == s.req.Job.Version &&
			a.Job.CreateIndex == s.req.Job.CreateIndex {
			s.note(a)
		}
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
	default: // draining or ineligible: existing allocations stay
		d.Ignore++
	}
}

func (s *perNode) note(a *nomad.Allocation) {
	k := spot{a.TaskGroup, a.NodeID}
	s.at[k] = append(s.at[k], a)
}

// settle makes sure that one allocation of the group runs on the node.
func (s *perNode) settle(tg *nomad.TaskGroup, n *nomad.Node) {
	d := s.out.desired(tg.Name)
	here := s.at[spot{tg.Name, n.ID}]
	if len(here) == 0 {
		if s.leave[spot{tg.Name, n.ID}] {
			return
		}
		d.Place++
		s.out.Place = append(s.out.Place, Placement{
			Name: nomad.AllocName(s.req.Job.Name, tg.Name, 0), Group: tg, Node: n.ID,
		})
		return
	}
	slices.SortFunc(here, func(a, b *nomad.Allocation) int {
		return cmp.Or(
			boolCompare(!a.TerminalStatus(), !b.TerminalStatus()),
			cmp.Compare(b.CreateIndex, a.CreateIndex),
			cmp.Compare(a.ID, b.ID))
	})
	for _, extra := range here[1:] {
		if !extra.TerminalStatus() {
			d.Stop++
			s.out.stop(extra, NotNeeded, "")
		}
	}
	s.update(tg, here[0], d)
}

// update updates the remaining allocation to the job's version.
func (s *perNode) update(tg *nomad.TaskGroup, a *nomad.Allocation, d *nomad.DesiredUpdates) {
	if a.TerminalStatus() {
		d.Ignore++
		return
	}
	c := s.differ.change(a, tg)
	switch {
	case c == same:
		d.Ignore++
	case !s.req.Suits(a, tg):
		d.Stop++
		s.out.stop(a, NodeUnfit, "")
	case c == harmless:
		d.InPlaceUpdate++
		s.out.InPlace = append(s.out.InPlace, a)
	case s.full(tg):
		s.out.Rolling = true
		d.Ignore++
	default:
		s.updates[tg.Name]++
		d.DestructiveUpdate++
		s.out.Place = append(s.out.Place, Placement{
			Name: a.Name, Group: tg, Previous: a, StopPrevious: Replaced, Destructive: true, Node: a.NodeID,
		})
	}
}

// full reports whether one evaluation has replaced the maximum number of allocations of the group.
func (s *perNode) full(tg *nomad.TaskGroup) bool {
	u := Stagger(s.req.Job, tg)
	return u != nil && s.updates[tg.Name] >= u.MaxParallel
}

// Stagger returns the update strategy for the rolling replacement of a system group, or nil if all
// are replaced at once.
func Stagger(job *nomad.Job, tg *nomad.TaskGroup) *nomad.UpdateStrategy {
	u := tg.Update
	if u == nil {
		u = &job.Update
	}
	if u.MaxParallel <= 0 || u.Stagger <= 0 {
		return nil
	}
	return u
}
