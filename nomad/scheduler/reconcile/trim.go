package reconcile

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// trim drops the members beyond the count and stops the live ones. Unknown allocations do not count, because their
// clients may return; they are replaced only if the others do not suffice.
func (g *generic) trim(tg *nomad.TaskGroup, members []member, waitingFrom int) []member {
	count := max(tg.Count, 0)
	var unknown []member
	if count > 0 {
		unknown, members = partition(members, isUnknown)
	}
	for i, room := 0, count-len(members); i < len(unknown); i++ {
		if unknown[i].replace == nil {
			continue
		}
		if room--; room < 0 {
			unknown[i].replace = nil
		}
	}
	if len(members) <= count {
		return append(members, unknown...)
	}
	g.sortByRank(members)
	d := g.out.desired(tg.Name)
	for _, m := range members[count:] {
		same := func(l later) bool { return l.alloc == m.alloc }
		g.waiting = append(g.waiting[:waitingFrom], slices.DeleteFunc(slices.Clone(g.waiting[waitingFrom:]), same)...)
		g.disconnected = slices.DeleteFunc(g.disconnected, same)
		if m.stop == NodeLost {
			d.Stop++
			g.out.stop(m.alloc, m.stop, m.clientStatus)
		} else if !m.alloc.ServerTerminalStatus() && m.alloc.ClientStatus != nomad.AllocClientStatusComplete {
			d.Stop++
			g.out.stop(m.alloc, NotNeeded, lostStatus(g.req.Node(m.alloc.NodeID)))
		}
	}
	return append(members[:count:count], unknown...)
}

// isUnknown reports whether the member is unknown, now or before.
func isUnknown(m member) bool {
	return m.becomes || m.alloc.ClientStatus == nomad.AllocClientStatusUnknown && m.stop == ""
}

// partition divides members by a condition.
func partition(members []member, is func(member) bool) (met, others []member) {
	for _, m := range members {
		if is(m) {
			met = append(met, m)
		} else {
			others = append(others, m)
		}
	}
	return met, others
}

// sortByRank puts the members to keep first. The last ones are lost, then those that failed and are replaced now,
// those with the name of a better one, those that migrate, and those with high indexes.
func (g *generic) sortByRank(members []member) {
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(
			cmp.Compare(ownRank(a), ownRank(b)),
			boolCompare(!a.alloc.ClientTerminalStatus(), !b.alloc.ClientTerminalStatus()),
			cmp.Compare(versionOf(b.alloc), versionOf(a.alloc)),
			cmp.Compare(a.alloc.ID, b.alloc.ID))
	})
	seen, twice := map[string]bool{}, map[string]bool{} // by name, by ID
	for _, m := range members {
		twice[m.alloc.ID] = seen[m.alloc.Name]
		seen[m.alloc.Name] = true
	}
	rank := func(m member) int {
		if n := ownRank(m); n > migrates || !twice[m.alloc.ID] {
			return n
		}
		return duplicate
	}
	slices.SortStableFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.alloc.Index(), b.alloc.Index()))
	})
}

// Ranks of the members of a group, the best first.
const (
	stays     = 0
	migrates  = 1
	duplicate = 2
	replaced  = 3 // it failed
	isLost    = 4
)

// ownRank returns the rank of a member without regard to others.
func ownRank(m member) int {
	switch {
	case m.stop == NodeLost:
		return isLost
	case m.stop != "":
		return migrates
	case m.replace != nil:
		return replaced
	}
	return stays
}

func versionOf(a *nomad.Allocation) uint64 {
	if a.Job == nil {
		return 0
	}
	return a.Job.Version
}

// boolCompare sorts true first.
func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
