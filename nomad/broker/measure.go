package broker

import (
	"time"

	"github.com/hashicorp/go-metrics"
)

// measure adds a duration of an evaluation to its metric. The label job is set only with
// Config.JobLabels, since it creates one series per job.
func (b *Broker) measure(name string, e *entry, since time.Time) {
	labels := make([]metrics.Label, 0, 4)
	if b.cfg.JobLabels {
		labels = append(labels, metrics.Label{Name: "job", Value: e.eval.JobID})
	}
	labels = append(labels, metrics.Label{Name: "namespace", Value: e.eval.Namespace},
		metrics.Label{Name: "eval_type", Value: e.eval.Type}, metrics.Label{Name: "triggered_by", Value: e.eval.TriggeredBy})
	metrics.MeasureSinceWithLabels([]string{"nomad", "broker", name}, since, labels)
}
