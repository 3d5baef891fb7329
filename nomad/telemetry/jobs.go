package telemetry

import (
	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Gauge sets a gauge.
type Gauge = func(key []string, val float32, labels []metrics.Label)

// Jobs sets the gauges of all jobs and of their groups.
func Jobs(snap *state.Snapshot, set Gauge) {
	eachJob(snap, set, func(*nomad.Job) bool { return true })
}

// JobsNotDispatched is Jobs without the groups of dispatched jobs.
func JobsNotDispatched(snap *state.Snapshot, set Gauge) {
	eachJob(snap, set, func(j *nomad.Job) bool { return !j.Dispatched })
}

func eachJob(snap *state.Snapshot, set Gauge, shown func(*nomad.Job) bool) {
	status := map[string]int{nomad.JobStatusPending: 0, nomad.JobStatusRunning: 0, nomad.JobStatusDead: 0}
	for j := range snap.Jobs(nil) {
		status[j.Status]++
		if shown(j) {
			summary(snap.JobSummary(nil, j.Namespace, j.ID), set)
		}
	}
	for name, n := range status {
		set([]string{"nomad", "job_status", name}, float32(n), nil)
	}
}

// summary sets the gauges of the groups of a job.
func summary(s *nomad.JobSummary, set Gauge) {
	if s == nil {
		return
	}
	for group, n := range s.Summary {
		labels := jobLabels(s, group)
		for _, one := range []struct {
			name  string
			count int
		}{
			{"queued", n.Queued}, {"complete", n.Complete}, {"failed", n.Failed}, {"running", n.Running},
			{"starting", n.Starting}, {"lost", n.Lost}, {"unknown", n.Unknown},
		} {
			set([]string{"nomad", "job_summary", one.name}, float32(one.count), labels)
		}
	}
}

// jobLabels returns the labels of a group. A child job also has the label of its parent.
func jobLabels(s *nomad.JobSummary, group string) []metrics.Label {
	labels := []metrics.Label{{Name: "job", Value: s.JobID}, {Name: "task_group", Value: group}, {Name: "namespace", Value: s.Namespace}}
	if parent, id, ok := nomad.DispatchedID(s.JobID); ok {
		labels = append(labels, metrics.Label{Name: "parent_id", Value: parent}, metrics.Label{Name: "dispatch_id", Value: id})
	} else if parent, id, ok := nomad.PeriodicID(s.JobID); ok {
		labels = append(labels, metrics.Label{Name: "parent_id", Value: parent}, metrics.Label{Name: "periodic_id", Value: id})
	}
	return labels[:len(labels):len(labels)]
}
