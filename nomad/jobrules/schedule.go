package jobrules

import (
	"github.com/open-nomad/open-nomad/internal/cron"
	"github.com/open-nomad/open-nomad/nomad"
)

// validateSchedule checks the window of a task's schedule.
func validateSchedule(s *nomad.TaskSchedule, f *faults) {
	if s == nil {
		return
	}
	if s.Cron == nil {
		f.add("schedule has no cron block: add one with start and end, or remove schedule")
		return
	}
	if _, err := cron.ParseWindow(s.Cron.Timezone, s.Cron.Start, s.Cron.End); err != nil {
		f.add("cron of schedule: %v", err)
	}
}
