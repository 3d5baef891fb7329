package plan

import (
	"log/slog"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// trackedNodes is the maximum number of nodes whose rejections are counted. A further node replaces
	// the one whose latest rejection is the oldest.
	trackedNodes = 50
	// markedAtOnce and markedEvery limit how many nodes become ineligible: a fault of the servers would
	// otherwise disable the whole fleet.
	markedAtOnce = 10
	markedEvery  = 30 * time.Minute / 5
)

// Rejections configures the tracker of plan rejections. If schedulers and the Applier disagree about a node, every
// plan for it is rejected, and schedulers choose it again. The tracker makes a node ineligible for which
// Threshold plans were rejected within Window.
type Rejections struct {
	Enabled   bool
	Threshold int           // default 100
	Window    time.Duration // default 5 min
}

// tracker counts the rejections of nodes. Only the applier uses it. A nil tracker counts nothing.
type tracker struct {
	cfg   Rejections
	nodes map[string][]time.Time // the latest rejections within the window, at most Threshold, oldest first
	limit *rate.Limiter
}

func newTracker(cfg Rejections) *tracker {
	if !cfg.Enabled {
		return nil
	}
	if cfg.Threshold <= 0 {
		cfg.Threshold = 100
	}
	if cfg.Window <= 0 {
		cfg.Window = 5 * time.Minute
	}
	return &tracker{cfg: cfg, nodes: map[string][]time.Time{}, limit: rate.NewLimiter(rate.Every(markedEvery), markedAtOnce)}
}

// add counts a rejection. score is the number of rejections within the window, at most Threshold. over
// reports whether it has reached Threshold.
func (t *tracker) add(node string, now time.Time) (score int, over bool) {
	times := t.nodes[node]
	begin := now.Add(-t.cfg.Window)
	times = slices.DeleteFunc(times, func(at time.Time) bool { return !at.After(begin) })
	if len(times) == t.cfg.Threshold {
		times = slices.Delete(times, 0, 1)
	}
	if len(t.nodes) >= trackedNodes && t.nodes[node] == nil {
		delete(t.nodes, t.oldest())
	}
	times = append(times, now)
	t.nodes[node] = times
	return len(times), len(times) >= t.cfg.Threshold
}

// oldest returns the node whose latest rejection is the oldest.
func (t *tracker) oldest() (node string) {
	var first time.Time
	for id, times := range t.nodes {
		if last := times[len(times)-1]; node == "" || last.Before(first) {
			node, first = id, last
		}
	}
	return node
}

// mark reports whether a node may become ineligible now. If so, it resets the count of the node.
func (t *tracker) mark(node string, now time.Time) bool {
	if !t.limit.AllowN(now, 1) {
		return false
	}
	delete(t.nodes, node)
	return true
}

// reject counts the nodes whose part of the plan was rejected. It adds those that become ineligible to the
// result.
func (c *candidate) reject(t *tracker, log *slog.Logger) {
	if len(c.result.RejectedNodes) == 0 {
		return
	}
	log.Debug("plan rejected on nodes", "eval", c.plan.EvalID, "reasons", texts(c.reasons))
	countRejected(c.result.RejectedNodes)
	if t == nil {
		return
	}
	for _, id := range c.result.RejectedNodes {
		node := c.view.snap.Node(nil, id)
		if node == nil || node.SchedulingEligibility == nomad.NodeSchedulingIneligible {
			continue // schedulers do not choose it
		}
		if c.reasons[id].elsewhere {
			continue // any other node would do the same
		}
		score, over := t.add(id, c.now)
		measureScore(id, score)
		switch {
		case !over:
		case t.mark(id, c.now):
			log.Warn("node becomes ineligible after repeated plan rejections", "node", id, "rejections", score, "reason", c.reasons[id].why)
			c.result.IneligibleNodes = append(c.result.IneligibleNodes, id)
		default:
			log.Warn("node rejects plans repeatedly, and too many nodes became ineligible for it", "node", id, "rejections", score, "reason",
				c.reasons[id].why)
		}
	}
}

func texts(reasons map[string]refusal) map[string]string {
	out := make(map[string]string, len(reasons))
	for node, r := range reasons {
		out[node] = r.why
	}
	return out
}

// countRejected counts the nodes on which a plan was rejected.
func countRejected(nodes []string) {
	for _, id := range nodes {
		metrics.IncrCounterWithLabels([]string{"nomad", "plan", "node_rejected"}, 1, []metrics.Label{{Name: "node_id", Value: id}})
	}
}

// measureScore sets the number of recent rejections of a node.
func measureScore(node string, score int) {
	metrics.SetGaugeWithLabels([]string{"nomad", "plan", "rejection_tracker", "node_score"}, float32(score),
		[]metrics.Label{{Name: "node_id", Value: node}})
}
