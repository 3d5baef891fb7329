package scheduler

import (
	"math"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// Names of the score components in allocation metrics.
const (
	scoreBinPack      = "binpack"
	scoreDevices      = "devices"
	scoreAntiAffinity = "job-anti-affinity"
	scorePenalty      = "node-reschedule-penalty"
	scoreAffinity     = "node-affinity"
	scoreSpread       = "allocation-spread"
	scorePreemption   = "preemption"
)

// scores holds the components of a node's score and the mean of those that apply.
type scores struct {
	fit, devices, anti, penalty, affinity, spread, preemption float64
	hasDevices, hasAffinity, hasPreemption                    bool
	fitOnly                                                   bool // system jobs: the other components are unknown
	norm                                                      float64
}

func (s *scores) named() map[string]float64 {
	out := map[string]float64{scoreBinPack: s.fit}
	if !s.fitOnly {
		out[scoreAntiAffinity], out[scorePenalty], out[scoreAffinity] = s.anti, s.penalty, s.affinity
	}
	if s.hasDevices {
		out[scoreDevices] = s.devices
	}
	if s.spread != 0 {
		out[scoreSpread] = s.spread
	}
	if s.hasPreemption {
		out[scorePreemption] = s.preemption
	}
	return out
}

// mean is the mean of the components of a score that apply.
type mean struct{ sum, count float64 }

func (m mean) with(value float64, applies bool) mean {
	if applies {
		m.sum += value
		m.count++
	}
	return m
}

func (m mean) plus(other mean) mean { return mean{m.sum + other.sum, m.count + other.count} }

func (m mean) value() float64 { return m.sum / m.count }

// own returns the components that depend on the node alone, and not on other nodes.
func (s *scores) own() mean {
	return mean{s.fit, 1}.with(s.devices, s.hasDevices).with(s.anti, s.anti != 0).
		with(s.penalty, s.penalty != 0).with(s.affinity, s.hasAffinity)
}

// normalize sets the score of the spreads, and the mean.
func (s *scores) normalize(spread mean) {
	s.spread = spread.sum
	s.norm = s.own().plus(spread).with(s.preemption, s.hasPreemption).value()
}

// penalize lowers the score of a node on which an earlier allocation failed.
func (s *scores) penalize() {
	s.penalty = -1
	s.normalize(mean{}.with(s.spread, s.spread != 0))
}

// scorer scores nodes for one group.
type scorer struct {
	tg         *nomad.TaskGroup
	ask        *feasible.Ask
	tally      *tally
	even       bool // spread algorithm instead of bin packing
	fitOnly    bool // system jobs: only the fit and the devices count
	affinities []weighted
	weights    float64 // sum of the absolute weights of the affinities
	spreads    *spreads
}

type weighted struct {
	constraint *feasible.Constraint
	weight     float64
}

func newScorer(c *cluster, tg *nomad.TaskGroup, ask *feasible.Ask) scorer {
	s := scorer{tg: tg, ask: ask, tally: c.tally, even: c.config.SchedulerAlgorithm == nomad.SchedulerAlgorithmSpread}
	if c.job.Type == nomad.JobTypeSystem || c.job.Type == nomad.JobTypeSysBatch {
		s.fitOnly, s.spreads = true, newSpreads(c.tally, tg, nil, nil)
		return s
	}
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
func (s *scorer) compares() bool { return len(s.affinities) > 0 || len(s.spreads.list) > 0 }

// prepare computes what does not change during the attempt.
func (s *scorer) prepare(v *nodeView) {
	v.spread = s.spreads.class(v.node)
	if s.fitOnly {
		return
	}
	v.affinity, v.same = 0, s.tally.spot(s.tg.Name, v.node.ID)
	for _, a := range s.affinities {
		if a.constraint.Holds(v.node) {
			v.affinity += a.weight
		}
	}
	if s.weights > 0 {
		v.affinity /= s.weights
	}
}

// resources scores the resources on the node without the victims: how full it would be, and the devices.
func (s *scorer) resources(v *nodeView, r *nomad.AllocatedResources, victims []*nomad.Allocation) (fit float64, d deviceScore) {
	more := r.Flatten()
	for _, a := range victims {
		more.Add(a.AllocatedResources.Flatten(), -1)
	}
	d.value, d.applies = s.ask.DeviceScore(v.node, r)
	if s.even {
		return v.usage.SpreadScore(more), d
	}
	return v.usage.BinPackScore(more), d
}

// score scores the option without the spreads and without the penalty of earlier failures. normalize completes it.
func (s *scorer) score(v *nodeView, o *option, fit float64, devices deviceScore) {
	out := &o.scores
	out.fit, out.devices, out.hasDevices = fit, devices.value, devices.applies
	out.hasAffinity, out.fitOnly = len(s.affinities) > 0, s.fitOnly
	if len(o.victims) > 0 {
		out.preemption, out.hasPreemption = preemptionScore(o.victims), true
	}
	if !s.fitOnly {
		if same := *v.same; same > 0 && s.tg.Count > 0 {
			out.anti = -float64(same+1) / float64(s.tg.Count)
		}
		out.affinity = v.affinity
	}
}

// The parameters of the logistic function that scores preemption.
const (
	preemptionRate   = 0.0048
	preemptionOrigin = 2048.0
)

// preemptionScore returns a score from 0 to 1 that falls with the priorities of the victims.
func preemptionScore(victims []*nomad.Allocation) float64 {
	top, sum := 0, 0
	for _, v := range victims {
		top = max(top, v.Job.Priority)
		sum += v.Job.Priority
	}
	if top == 0 {
		return 1 / (1 + math.Exp(-preemptionRate*preemptionOrigin))
	}
	p := float64(top) + float64(sum)/float64(top)
	return 1 / (1 + math.Exp(preemptionRate*(p-preemptionOrigin)))
}
