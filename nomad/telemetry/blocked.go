package telemetry

import (
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

// series identifies the gauges of missing resources: of a job, or of a class of nodes.
type series struct {
	job                         nomad.NamespacedID // for the gauges of a job
	datacenter, class, nodePool string             // for the gauges of a class
}

// lack is the amount of missing resources.
type lack struct{ cpu, memoryMB int }

// Blocked sets the gauges of the resources that blocked evaluations lack.
func Blocked(evals []*nomad.Evaluation, set Gauge) {
	lacks := map[series]lack{}
	for _, e := range evals {
		addLack(lacks, e)
	}
	for of, l := range lacks {
		name, labels := []string{"nomad", "blocked_evals"}, of.labels()
		if of.job.ID != "" {
			name = append(name, "job")
		}
		set(append(slices.Clip(name), "cpu"), float32(l.cpu), labels)
		set(append(slices.Clip(name), "memory"), float32(l.memoryMB), labels)
	}
}

// Waiting sets the gauges of delayed evaluations: the seconds until they are due.
func Waiting(evals []broker.DelayedEval, set Gauge) {
	for _, d := range evals {
		set([]string{"nomad", "broker", "eval_waiting"}, float32(time.Until(d.Until).Seconds()), []metrics.Label{
			{Name: "eval_id", Value: d.Eval.ID}, {Name: "job", Value: d.Eval.JobID}, {Name: "namespace", Value: d.Eval.Namespace}})
	}
}

// addLack adds the missing resources of an evaluation to the series of its job and of the exhausted
// classes.
func addLack(to map[series]lack, e *nomad.Evaluation) {
	for _, m := range e.FailedTGAllocs {
		if m == nil {
			continue
		}
		var l lack
		for _, r := range m.ResourcesExhausted {
			if r == nil {
				continue
			}
			l.cpu += r.CPU
			l.memoryMB += r.MemoryMB
		}
		job := series{job: nomad.NamespacedID{ID: e.JobID, Namespace: e.Namespace}}
		to[job] = l.plus(to[job])
		classes := slices.Collect(maps.Keys(m.ClassExhausted))
		if len(classes) == 0 {
			classes = []string{""}
		}
		for dc := range m.NodesAvailable {
			for _, class := range classes {
				of := series{datacenter: dc, class: class, nodePool: m.NodePool}
				to[of] = l.plus(to[of])
			}
		}
	}
}

func (l lack) plus(o lack) lack { return lack{l.cpu + o.cpu, l.memoryMB + o.memoryMB} }

// labels returns the labels of the series.
func (s series) labels() []metrics.Label {
	if s.job.ID != "" {
		return []metrics.Label{{Name: "namespace", Value: s.job.Namespace}, {Name: "job", Value: s.job.ID}}
	}
	return []metrics.Label{{Name: "datacenter", Value: s.datacenter}, {Name: "node_class", Value: s.class},
		{Name: "node_pool", Value: s.nodePool}}
}
