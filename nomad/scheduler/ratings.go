package scheduler

import (
	"math"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// ratings are the results of the candidates for a group, by their position in the order of visits. A job with a spread
// or an affinity compares thousands of nodes for each allocation. Since the last search only a few nodes have changed:
// those of the changes of the plan. The score of any other node differs by that of its spread class only:
//
//	score = mean of (rating of the node, score of its spread class)
//
// A search tries a node that has no rating, and reads the rating of each other one.
type ratings struct {
	list     []rating
	outcomes []outcome
	byReason map[reason]outcomeID
	seen     int // changes of the cluster that the list includes
}

// rating is the result of one node. It is small, because a search reads thousands of them.
type rating struct {
	own     mean // of its score, see scores.own
	spread  spreadID
	outcome outcomeID
}

// outcomeID is an index of ratings.outcomes.
type outcomeID int32

const (
	untried outcomeID = iota // the node was not tried since it last changed
	fits
	firstReason
)

// outcome is a reason why nodes do not fit, and their number in the current search.
type outcome struct {
	reason
	count int
}

// reason is why a node of a class does not fit.
type reason struct {
	text, class string
	exhausted   bool // feasible but full
}

// id returns the ID of the outcome of nodes with the reason.
func (r *ratings) id(why reason) outcomeID {
	id, known := r.byReason[why]
	if !known {
		id = outcomeID(len(r.outcomes))
		r.byReason[why] = id
		r.outcomes = append(r.outcomes, outcome{reason: why})
	}
	return id
}

// report adds the counts of the search to the metric, and resets them.
func (r *ratings) report(m *nomad.AllocMetric) {
	for i := range r.outcomes {
		if o := &r.outcomes[i]; o.count > 0 {
			o.reason.add(m, o.count)
			o.count = 0
		}
	}
}

// rated returns the ratings of a group. Nodes that changed since the last search have none.
func (s *stack) rated(g *groupStack) *ratings {
	r, changed := &g.ratings, *s.cluster.changed
	if r.list == nil {
		r.list, r.seen = make([]rating, len(s.cluster.ready)), len(changed)
		r.outcomes, r.byReason = make([]outcome, firstReason), map[reason]outcomeID{}
	}
	for _, id := range changed[r.seen:] {
		if v := g.views[id]; v != nil && v.at >= 0 {
			r.list[v.at].outcome = untried
		}
	}
	r.seen = len(changed)
	return r
}

// maxSkipped is how many nodes with a score of zero or less may be skipped in search of better
// ones.
const maxSkipped = 3

// compare ranks the candidates, from the offset of the stack, until as many as the limit of the group are scored.
func (s *stack) compare(g *groupStack, avoid map[string]bool, m *nomad.AllocMetric) (options ranking) {
	nodes, r := s.cluster.ready, s.rated(g)
	scored, skipped, visited, at, floor := 0, 0, 0, s.offset, options.floor()
	for ; visited < len(nodes) && scored < g.limit; visited++ {
		if one := &r.list[at]; one.outcome == fits && !g.varies || s.suits(g, at, m) {
			spread := g.scorer.spreads.score(one.spread)
			norm := one.own.plus(spread).value()
			if norm > floor || len(avoid) > 0 && avoid[nodes[at].ID] {
				o := g.option(g.views[nodes[at].ID], spread, avoid)
				norm = o.scores.norm
				options.add(&o)
				floor = options.floor()
			}
			if skipped < maxSkipped && norm <= 0 {
				skipped++
			} else {
				scored++
			}
		}
		if at++; at == len(nodes) {
			at = 0
		}
	}
	s.offset, m.NodesEvaluated = at, visited
	r.report(m)
	return options
}

// suits reports whether the node at a position fits. It tries a node without a rating. If the node does not fit, it
// counts the reason.
func (s *stack) suits(g *groupStack, at int, m *nomad.AllocMetric) bool {
	r := &g.ratings.list[at]
	if r.outcome == untried {
		s.rate(g, at)
	}
	full := r.outcome != fits && g.ratings.outcomes[r.outcome].exhausted
	if g.varies && (r.outcome == fits || full) {
		if why := s.conflict(g, s.cluster.ready[at]); why != "" {
			filter(m, s.cluster.ready[at], why)
			return false
		}
	}
	if r.outcome != fits {
		g.ratings.outcomes[r.outcome].count++
	}
	return r.outcome == fits
}

// rate tries the node at a position.
func (s *stack) rate(g *groupStack, at int) {
	v := s.view(g, s.cluster.ready[at])
	v.at = at
	why := reason{text: v.why, class: v.node.NodeClass}
	if why.text == "" && !g.varies {
		why.text = s.conflict(g, v.node)
	}
	if why.text == "" {
		why.text, why.exhausted = v.take(s.cluster, g, s.rng), true
	}
	if why.text != "" {
		g.ratings.list[at].outcome = g.ratings.id(why)
		return
	}
	var o option
	g.scorer.score(v, &o, v.fit, v.devices)
	g.ratings.list[at] = rating{o.scores.own(), v.spread, fits}
}

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
