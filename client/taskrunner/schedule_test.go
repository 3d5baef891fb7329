package taskrunner

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// A request of a user holds across changes of the schedule, until the user returns the task to it.
func TestSchedule_Request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The clock starts at midnight, UTC. The task runs from 2:00 to 4:00.
		block := &nomad.TaskSchedule{Cron: &nomad.TaskScheduleCron{Start: "0 2 * * * *", End: "0 4", Timezone: "UTC"}}
		var got []nomad.TaskScheduleState
		s := newSchedule(slog.New(slog.DiscardHandler), block, func(s nomad.TaskScheduleState, _ *nomad.TaskEvent) { got = append(got, s) })
		open := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		check := func(paused bool) {
			t.Helper()
			if open(s.pausing()) != paused || open(s.resumable()) == paused {
				t.Errorf("after %v: pausing %t, resumable %t, want paused: %t", got, open(s.pausing()), open(s.resumable()), paused)
			}
		}
		s.begin()
		check(true)
		time.Sleep(2*time.Hour + time.Minute)
		check(false)
		s.request(nomad.TaskScheduleStateForcePause)
		time.Sleep(24 * time.Hour)
		check(true)
		s.request(nomad.TaskScheduleStateSchedResume)
		check(false)
		s.end()
		time.Sleep(12 * time.Hour)
		check(false)
		want := []nomad.TaskScheduleState{nomad.TaskScheduleStateSchedPause, nomad.TaskScheduleStateRun, nomad.TaskScheduleStateForcePause,
			nomad.TaskScheduleStateRun}
		if !slices.Equal(got, want) {
			t.Errorf("states %q, want %q", got, want)
		}
	})
}
