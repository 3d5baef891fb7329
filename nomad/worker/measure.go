package worker

import (
	"time"

	"github.com/hashicorp/go-metrics"
)

// measure adds the duration of a step to its metric.
func measure(step string, begun time.Time) {
	metrics.MeasureSince([]string{"nomad", "worker", step}, begun)
}

// measureScheduler adds the duration of a run of the scheduler of a type.
func measureScheduler(evalType string, begun time.Time) {
	metrics.MeasureSince([]string{"nomad", "worker", "invoke_scheduler", evalType}, begun)
}
