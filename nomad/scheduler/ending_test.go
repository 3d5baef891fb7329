package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestEndings holds the scheduler against the table in nomad/ending.go: what it does when the only allocation of a job
// ended, at once, and after the delay of the reschedule policy.
func TestEndings(t *testing.T) {
	policies := map[string]nomad.ReschedulePolicy{
		"unlimited": {Unlimited: true, Delay: 30 * time.Second, DelayFunction: "constant"},
		"one":       {Attempts: 1, Interval: time.Hour, Delay: 30 * time.Second, DelayFunction: "constant"},
		"none":      {},
	}
	for _, typ := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		for _, status := range []string{nomad.AllocClientStatusComplete, nomad.AllocClientStatusFailed, nomad.AllocClientStatusLost} {
			for name, p := range policies {
				t.Run(typ+" "+status+" "+name, func(t *testing.T) {
					w := newWorld(t)
					w.addNode("n1")
					w.register(job(typ, 1, policy(p)))
					w.process()
					w.report(status, nil, w.live()...)
					w.process()
					ending := nomad.EndingOf(typ, status)
					if got, want := len(w.live()) == 1, ending == nomad.EndReplaced; got != want {
						t.Errorf("replaced at once: %t, want %t", got, want)
					}
					waits := ending == nomad.EndDelayed || ending == nomad.EndByPolicy && name != "none"
					if got := len(w.created) == 1 && w.created[0].WaitUntil.Equal(w.now.Add(30*time.Second)); got != waits {
						t.Fatalf("a follow-up evaluation waits: %t, want %t", got, waits)
					}
					if !waits {
						return
					}
					w.now = w.created[0].WaitUntil
					w.process(func(e *nomad.Evaluation) { e.ID = w.created[0].ID })
					wantNames(t, w.live(), "j.g[0]")
				})
			}
		}
	}
}

// TestEndings_NoFlood counts the allocations of a service whose tasks end with 0 at once, also as canaries.
func TestEndings_NoFlood(t *testing.T) {
	for _, canary := range []int{0, 1} {
		w := newWorld(t)
		w.addNode("n1")
		w.register(job(nomad.JobTypeService, 1, policy(nomad.ReschedulePolicy{Unlimited: true, Delay: 30 * time.Second,
			DelayFunction: "exponential", MaxDelay: time.Hour}), func(j *nomad.Job) {
			j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 1, Canary: canary, ProgressDeadline: time.Hour}
		}))
		w.process()
		w.report(nomad.AllocClientStatusRunning, &yes, w.live()...)
		w.change(newCommand)
		w.process()
		before := len(w.allocs)
		for range 20 {
			for _, a := range w.live() {
				if a.Job.Version == 1 {
					w.report(nomad.AllocClientStatusComplete, &no, a)
				}
			}
			w.process()
			w.now = w.now.Add(time.Second)
		}
		if got := len(w.allocs) - before; got > 0 {
			t.Errorf("canary %d: %d more allocations in 20 s, want none", canary, got)
		}
	}
}
