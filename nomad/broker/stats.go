package broker

import (
	"slices"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
)

// Stats counts the evaluations in a Broker.
type Stats struct {
	Ready       int
	Unacked     int
	Pending     int
	Waiting     int
	Cancelable  int
	ByScheduler map[string]SchedulerStats
}

// SchedulerStats counts the evaluations of one type.
type SchedulerStats struct {
	Ready   int
	Unacked int
}

// Stats counts the evaluations.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{
		Unacked:     b.unacked,
		Waiting:     b.delayed,
		Cancelable:  len(b.cancelable),
		ByScheduler: make(map[string]SchedulerStats),
	}
	for _, e := range b.entries {
		by := s.ByScheduler[e.eval.Type]
		switch e.state {
		case Pending:
			s.Pending++
		case Ready:
			s.Ready++
			by.Ready++
		case Failed:
			s.Ready++
			failed := s.ByScheduler[FailedQueue]
			failed.Ready++
			s.ByScheduler[FailedQueue] = failed
		case Unacked:
			by.Unacked++
		}
		s.ByScheduler[e.eval.Type] = by
	}
	return s
}

// DelayedEval is an evaluation that waits for its time.
type DelayedEval struct {
	Eval  *nomad.Evaluation
	Until time.Time
}

// Delayed returns the waiting evaluations, the earliest first.
func (b *Broker) Delayed() []DelayedEval {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []DelayedEval
	for _, e := range b.entries {
		if e.state == Delayed && e.deliveries == 0 {
			out = append(out, DelayedEval{e.eval, e.due})
		}
	}
	slices.SortFunc(out, func(x, y DelayedEval) int { return x.Until.Compare(y.Until) })
	return out
}

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
