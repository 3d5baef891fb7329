package scheduler

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// anyValue is the spread target for all values that are not listed.
const anyValue = "*"

// spread scores nodes by the distribution of the group's allocations over the values of a node
// property.
type spread struct {
	target  feasible.Target
	used    *property
	desired map[string]float64 // allocations by value; nil: even spread
	weight  float64            // share of the total weight of all spreads
}

// newSpreads prepares the spreads of job and group. A group's spread replaces the job's spread over
// the same attribute.
func newSpreads(t *tally, tg *nomad.TaskGroup, ofJob, ofGroup []*nomad.Spread) []*spread {
	own := map[string]bool{}
	for _, s := range ofGroup {
		own[s.Attribute] = true
	}
	list := append([]*nomad.Spread(nil), ofGroup...)
	for _, s := range ofJob {
		if !own[s.Attribute] {
			list = append(list, s)
		}
	}
	sum := 0.0
	for _, s := range list {
		sum += max(float64(s.Weight), 0)
	}
	var out []*spread
	for _, s := range list {
		if s.Weight <= 0 {
			continue
		}
		out = append(out, &spread{
			target:  feasible.ParseTarget(s.Attribute),
			used:    t.property(s.Attribute, tg.Name),
			desired: desiredCounts(s, tg.Count),
			weight:  float64(s.Weight) / sum,
		})
	}
	return out
}

// desiredCounts converts percentages to numbers of allocations. The remainder goes to all values
// that are not listed.
func desiredCounts(s *nomad.Spread, count int) map[string]float64 {
	if len(s.SpreadTarget) == 0 {
		return nil
	}
	out, rest := map[string]float64{}, 100.0
	for _, t := range s.SpreadTarget {
		out[t.Value] = float64(t.Percent) / 100 * float64(count)
		rest -= float64(t.Percent)
	}
	if _, named := out[anyValue]; !named && rest > 0 {
		out[anyValue] = rest / 100 * float64(count)
	}
	return out
}

// score returns a score from -1 to 1, times the spread's weight. A node without the property gets
// the lowest score.
func (s *spread) score(n *nomad.Node) float64 {
	v, ok := s.target.Value(n)
	if !ok {
		return -s.weight
	}
	if s.desired == nil {
		return s.even(v) * s.weight
	}
	desired, ok := s.desired[v]
	if !ok {
		desired, ok = s.desired[anyValue]
	}
	if !ok || desired <= 0 {
		return -s.weight
	}
	boost := (desired - float64(s.used.counts[v]+1)) / desired
	return max(boost, -1) * s.weight
}

// even prefers the values with the fewest allocations: 1 for a value without any, -1 for the value
// with the most.
func (s *spread) even(v string) float64 {
	most := 0
	for _, n := range s.used.counts {
		most = max(most, n)
	}
	if most == 0 {
		return 0
	}
	return 1 - 2*float64(s.used.counts[v])/float64(most)
}
