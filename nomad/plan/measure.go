package plan

import (
	"time"

	"github.com/hashicorp/go-metrics"
)

// measure adds the duration of a step to its metric.
func measure(step string, begun time.Time) {
	metrics.MeasureSince([]string{"nomad", "plan", step}, begun)
}

// countRejected counts the nodes on which a plan was rejected.
func countRejected(nodes []string) {
	for _, id := range nodes {
		metrics.IncrCounterWithLabels([]string{"nomad", "plan", "node_rejected"}, 1, []metrics.Label{{Name: "node_id", Value: id}})
	}
}

// measureScore sets the number of recent rejections of a node.
func measureScore(node string, score int) {
	metrics.SetGaugeWithLabels([]string{"nomad", "plan", "rejection_tracker", "node_score"}, float32(score), []metrics.Label{{Name: "node_id", Value: node}})
}
