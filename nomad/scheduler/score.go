package scheduler

import (
	"math"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// Names of the score components in allocation metrics.
const (
	scoreBinPack      = "binpack"
	scoreAntiAffinity = "job-anti-affinity"
	scorePenalty      = "node-reschedule-penalty"
	scoreAffinity     = "node-affinity"
	scoreSpread       = "allocation-spread"
)

// scores holds the components of a node's score and the mean of those that apply.
type scores struct {
	fit, anti, penalty, affinity, spread float64
	hasAffinity, hasSpread               bool
	norm                                 float64
}

func (s *scores) named() map[string]float64 {
	out := map[string]float64{scoreBinPack: s.fit, scoreAntiAffinity: s.anti, scorePenalty: s.penalty, scoreAffinity: s.affinity}
	if s.hasSpread {
		out[scoreSpread] = s.spread
	}
	return out
}

func (s *scores) normalize() {
	sum, n := s.fit, 1.0
	for _, part := range []struct {
		value   float64
		applies bool
	}{
		{s.anti, s.anti != 0}, {s.penalty, s.penalty != 0}, {s.affinity, s.hasAffinity}, {s.spread, s.hasSpread},
	} {
		if part.applies {
			sum += part.value
			n++
		}
	}
	s.norm = sum / n
}

// penalize lowers the score of a node on which an earlier allocation failed.
func (s *scores) penalize() {
	s.penalty = -1
	s.normalize()
}

// scorer scores nodes for one group.
type scorer struct {
	tg         *nomad.TaskGroup
	tally      *tally
	even       bool // spread algorithm instead of bin packing
	affinities []weighted
	weights    float64 // sum of the absolute weights of the affinities
	spreads    []*spread
}

type weighted struct {
	constraint *feasible.Constraint
	weight     float64
}

func newScorer(c *cluster, tg *nomad.TaskGroup) scorer {
	s := scorer{tg: tg, tally: c.tally, even: c.config.SchedulerAlgorithm == nomad.SchedulerAlgorithmSpread}
	s.addAffinities(c.job.Affinities)
	s.addAffinities(tg.Affinities)
	for _, t := range tg.Tasks {
		s.addAffinities(t.Affinities)
	}
	s.spreads = newSpreads(c.tally, tg, c.job.Spreads, tg.Spreads)
	return s
}

func (s *scorer) addAffinities(list []*nomad.Affinity) {
	for _, a := range list {
		// An affinity that does not compile matches no node and adds no score.
		c, _ := feasible.Compile(a.LTarget, a.Operand, a.RTarget)
		s.affinities = append(s.affinities, weighted{c, float64(a.Weight)})
		s.weights += math.Abs(float64(a.Weight))
	}
}

// compares reports whether scores compare nodes with one another.
func (s *scorer) compares() bool { return len(s.affinities)+len(s.spreads) > 0 }

func (s *scorer) score(n *nomad.Node, u *feasible.Usage, r *nomad.AllocatedResources) scores {
	out := scores{hasAffinity: len(s.affinities) > 0, hasSpread: len(s.spreads) > 0}
	if s.even {
		out.fit = u.SpreadScore(r.Flatten())
	} else {
		out.fit = u.BinPackScore(r.Flatten())
	}
	if same := s.tally.byspot[spot{s.tg.Name, n.ID}]; same > 0 && s.tg.Count > 0 {
		out.anti = -min(1, float64(same+1)/float64(s.tg.Count))
	}
	for _, a := range s.affinities {
		if a.constraint.Holds(n) {
			out.affinity += a.weight
		}
	}
	if s.weights > 0 {
		out.affinity /= s.weights
	}
	for _, sp := range s.spreads {
		out.spread += sp.score(n)
	}
	out.normalize()
	return out
}
