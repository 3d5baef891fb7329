package allochook

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestLateTask(t *testing.T) {
	limits := healthLimits{minimum: 10 * time.Second, deadline: time.Minute}
	long, now := time.Now().Add(-time.Hour), time.Now()
	for want, s := range map[string]*nomad.TaskState{
		"Unhealthy because of failed task":                                         {State: nomad.TaskStateDead, Failed: true, FinishedAt: now},
		"Unhealthy because of dead task":                                           {State: nomad.TaskStateDead, FinishedAt: now},
		"Task not running by healthy_deadline of 1m0s":                             {State: nomad.TaskStatePending},
		"Task not running for min_healthy_time of 10s by healthy_deadline of 1m0s": {State: nomad.TaskStateRunning, StartedAt: now},
		"": {State: nomad.TaskStateRunning, StartedAt: long},
	} {
		if got := lateTask(&nomad.Task{Name: "t"}, s, limits); got != want {
			t.Errorf("lateTask(%s) = %q, want %q", s.State, got, want)
		}
	}
}
