package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// A job that was purged and is registered again unchanged is placed at once, however the allocations of the earlier job
// ended, and whether it had attempts left.
func TestPurged_RegisteredAgain(t *testing.T) {
	for _, typ := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		for _, status := range []string{nomad.AllocClientStatusFailed, nomad.AllocClientStatusComplete, nomad.AllocClientStatusLost,
			nomad.AllocClientStatusRunning} {
			for _, p := range []nomad.ReschedulePolicy{{}, {Unlimited: true, Delay: 30 * time.Second},
				{Attempts: 1, Interval: time.Hour, Delay: time.Second}} {
				w := newWorld(t)
				w.addNode("n1")
				w.register(job(typ, 1, policy(p)))
				w.process()
				w.report(status, nil, w.live()...)
				w.process() // waits for a reschedule
				again := codec.Copy(w.jobs["j"])
				delete(w.jobs, "j")
				w.process()
				again.CreateIndex, again.ModifyIndex, again.JobModifyIndex = w.index, w.index, w.index
				w.register(again)
				created := len(w.created)
				w.process()
				if got := names(w.live()); len(got) != 1 || len(w.created) != created {
					t.Errorf("%s job whose allocation was %s, policy %+v: live %v, %d evaluations wait, want one allocation", typ, status, p, got,
						len(w.created)-created)
				}
			}
		}
	}
}
