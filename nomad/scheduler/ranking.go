package scheduler

import (
	"math"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// ranking holds the options with the highest scores, best first. Of equal ones, the first is better.
type ranking []option

// floor returns the score that an option must exceed to be one of the best.
func (r ranking) floor() float64 {
	if len(r) < nomad.MaxRetainedNodeScores {
		return math.Inf(-1)
	}
	return r[len(r)-1].scores.norm
}

// add adds a copy of the option if it is one of the best.
func (r *ranking) add(o *option) {
	at := len(*r)
	for at > 0 && (*r)[at-1].scores.norm < o.scores.norm {
		at--
	}
	if at == nomad.MaxRetainedNodeScores {
		return
	}
	if len(*r) == nomad.MaxRetainedNodeScores {
		*r = (*r)[:len(*r)-1]
	}
	*r = slices.Insert(*r, at, *o)
}

// best returns the best option, or nil if there are none. It records the scores in the metric.
func (r ranking) best(m *nomad.AllocMetric) *option {
	for i := range r {
		m.ScoreMetaData = append(m.ScoreMetaData, &nomad.NodeScoreMeta{
			NodeID: r[i].node.ID, Scores: r[i].scores.named(), NormScore: r[i].scores.norm,
		})
	}
	if len(r) == 0 {
		return nil
	}
	return &r[0]
}
