package scheduler

import (
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// anyValue is the spread target for all values that are not listed.
const anyValue = "*"

// spreads are the spreads of a job and a group.
type spreads struct {
	list    []*spread
	lowest  float64 // of all boosts so far, at most -1
	tally   *tally
	classes []spreadClass
	byValue map[string]spreadID
}

// spreadID is an index of spreads.classes.
type spreadID int32

// spreadClass are the nodes with the same values for all spreads. They have the same score.
type spreadClass struct {
	values []spreadValue
	score  mean
	at     int  // version of the tally that the score is of, or -1
	varies bool // the score depends on other classes, see boost
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
	out := &spreads{lowest: -1, tally: t, byValue: map[string]spreadID{}}
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

// class returns the class of a node.
func (s *spreads) class(n *nomad.Node) spreadID {
	var key []byte
	for _, sp := range s.list {
		if text, set := sp.target.Value(n); set {
			key = strconv.AppendQuote(key, text)
		}
		key = append(key, ',')
	}
	id, known := s.byValue[string(key)]
	if !known {
		id = spreadID(len(s.classes))
		s.byValue[string(key)] = id
		s.classes = append(s.classes, s.newClass(n))
	}
	return id
}

func (s *spreads) newClass(n *nomad.Node) spreadClass {
	out := spreadClass{values: make([]spreadValue, len(s.list)), at: -1}
	for i, sp := range s.list {
		v := sp.value(n)
		out.values[i] = v
		out.varies = out.varies || v.listed && v.desired <= 0
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

// score returns the sum of the scores of all spreads for a class of nodes, as a component of the score of its nodes. It
// does not apply if it is 0.
func (s *spreads) score(id spreadID) mean {
	if c := &s.classes[id]; c.at == s.tally.version() {
		return c.score
	}
	return s.update(id)
}

// update computes the score of a class.
func (s *spreads) update(id spreadID) mean {
	c := &s.classes[id]
	sum := s.sum(c.values)
	c.score = mean{}.with(sum, sum != 0)
	if !c.varies {
		c.at = s.tally.version()
	}
	return c.score
}

func (s *spreads) sum(values []spreadValue) (sum float64) {
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
