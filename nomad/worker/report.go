package worker

import (
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"
)

// Status is the current state of a Worker, with the names of /v1/agent/schedulers.
type Status struct {
	ID         string
	Schedulers []string  // the enabled evaluation types
	Started    time.Time // zero before Run
	Status     string
	Workload   string
}

// States of a Worker.
const (
	statusStarting = "Starting"
	statusStarted  = "Started"
	statusStopped  = "Stopped"
)

// Steps of a Worker.
const (
	workloadWaiting    = "WaitingToDequeue"
	workloadRaft       = "WaitingForRaft"
	workloadScheduling = "Scheduling"
	workloadSubmitting = "Submitting"
	workloadBackoff    = "Backoff"
	workloadStopped    = "Stopped"
)

// report is the current state of a worker, for readers in other goroutines.
type report struct {
	id string

	mu       sync.Mutex
	started  time.Time
	status   string
	workload string
}

func (r *report) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started, r.status = time.Now(), statusStarted
}

func (r *report) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.workload = statusStopped, workloadStopped
}

func (r *report) set(workload string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workload = workload
}

// Status returns what the worker does now.
func (w *Worker) Status() Status {
	r := &w.report
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{ID: r.id, Schedulers: w.cfg.Schedulers, Started: r.started, Status: r.status, Workload: r.workload}
	if s.Status == "" {
		s.Status, s.Workload = statusStarting, workloadWaiting
	}
	return s
}

// measure adds the duration of a step to its metric.
func measure(step string, begun time.Time) {
	metrics.MeasureSince([]string{"nomad", "worker", step}, begun)
}

// measureScheduler adds the duration of a run of the scheduler of a type.
func measureScheduler(evalType string, begun time.Time) {
	metrics.MeasureSince([]string{"nomad", "worker", "invoke_scheduler", evalType}, begun)
}
