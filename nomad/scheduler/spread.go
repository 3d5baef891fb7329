package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// anyValue is the spread target for all values that are not listed.
const anyValue = "*"

// spreads are the spreads of a job and a group. A nil pointer means that there are none.
type spreads struct {
	list   []*spread
	lowest float64 // of all boosts so far, at most -1
}

// spread scores nodes by the distribution of the group's allocations over the values of a node
// property.
type spread struct {
	target  feasible.Target
	used    *property
	desired map[string]float64 // allocations by value; nil: even spread
	weight  float64            // share of the total weight of all spreads
}

// newSpreads prepares the spreads of job and group. Both count the allocations of the group.
func newSpreads(t *tally, tg *nomad.TaskGroup, ofJob, ofGroup []*nomad.Spread) *spreads {
	var list []*nomad.Spread
	sum := 0.0
	for _, of := range [][]*nomad.Spread{ofGroup, ofJob} {
		for _, s := range of {
			if s.Weight > 0 {
				list = append(list, s)
				sum += float64(s.Weight)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	out := &spreads{lowest: -1}
	for _, s := range list {
		desired := desiredCounts(s, tg.Count)
		out.list = append(out.list, &spread{
			target:  feasible.ParseTarget(s.Attribute),
			used:    t.propertyOf(s.Attribute, tg.Name, desired),
			desired: desired,
			weight:  float64(s.Weight) / sum,
		})
	}
	return out
}

// desiredCounts converts percentages to numbers of allocations. The remainder goes to all values
// that are not listed, together.
func desiredCounts(s *nomad.Spread, count int) map[string]float64 {
	if len(s.SpreadTarget) == 0 {
		return nil
	}
	out, sum := map[string]float64{}, 0.0
	for _, t := range s.SpreadTarget {
		n := float64(t.Percent) / 100 * float64(count)
		out[t.Value] = n
		sum += n
	}
	if sum > 0 && sum < float64(count) {
		out[anyValue] += float64(count) - sum
	}
	return out
}

// spreadValue is the value of a spread's attribute on a node, if the node has it.
type spreadValue struct {
	set     bool
	used    *int    // the allocations on nodes with the value, or with any that is not listed
	desired float64 // of a spread with targets
	listed  bool    // desired is valid
}

// values returns the values of a node for all spreads.
func (s *spreads) values(n *nomad.Node) []spreadValue {
	if s == nil {
		return nil
	}
	out := make([]spreadValue, len(s.list))
	for i, sp := range s.list {
		out[i] = sp.value(n)
	}
	return out
}

// value returns the value of a node.
func (sp *spread) value(n *nomad.Node) spreadValue {
	text, set := sp.target.Value(n)
	if !set {
		return spreadValue{}
	}
	out := spreadValue{set: true, used: sp.used.count(text)}
	if out.desired, out.listed = sp.desired[text]; !out.listed {
		out.desired, out.listed = sp.desired[anyValue]
	}
	return out
}

// score returns the sum of the scores of all spreads for the values of a node.
func (s *spreads) score(values []spreadValue) (sum float64) {
	for i, v := range values {
		switch sp := s.list[i]; {
		case !v.set:
			sum--
		case sp.desired == nil:
			sum += sp.even(*v.used)
		default:
			sum += s.boost(sp, v)
		}
	}
	return sum
}

// boost scores a value against its desired number of allocations: 1 at most, and below 0 for each allocation beyond
// that number. A value without any gets the lowest boost of all.
func (s *spreads) boost(sp *spread, v spreadValue) float64 {
	if !v.listed {
		return -1
	}
	if v.desired <= 0 {
		return s.lowest
	}
	boost := (v.desired - float64(*v.used+1)) / v.desired * sp.weight
	s.lowest = min(s.lowest, boost)
	return boost
}

// even prefers the values with the fewest allocations. used is the number of the value. Only values in use count for
// the minimum and the maximum.
func (sp *spread) even(used int) float64 {
	least, most := sp.used.extremes()
	switch {
	case most == 0:
		return 0
	case used != least:
		return float64(least-used) / float64(least)
	case least == most:
		return -1
	}
	return float64(most-least) / float64(least)
}
