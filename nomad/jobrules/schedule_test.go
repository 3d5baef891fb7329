package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestSchedule(t *testing.T) {
	for _, tc := range []struct {
		schedule *nomad.TaskSchedule
		want     string // "" for a valid job
	}{
		{&nomad.TaskSchedule{Cron: &nomad.TaskScheduleCron{Start: "30 9 * * MON-FRI *", End: "0 16", Timezone: "America/New_York"}}, ""},
		{&nomad.TaskSchedule{Cron: &nomad.TaskScheduleCron{Start: "30 9 * * * *", End: "0 16"}}, ""},
		{&nomad.TaskSchedule{}, "schedule has no cron block"},
		{&nomad.TaskSchedule{Cron: &nomad.TaskScheduleCron{}}, `cron of schedule: start "" has 0 fields`},
		{&nomad.TaskSchedule{Cron: &nomad.TaskScheduleCron{Start: "*/5 9 * * * *", End: "0 16"}}, "must not contain / or ,"},
		{&nomad.TaskSchedule{Cron: &nomad.TaskScheduleCron{Start: "30 9 * * * *", End: "0 16", Timezone: "x"}}, `unknown time zone "x"`},
	} {
		j := sample("service")
		j.TaskGroups[0].Tasks[0].Schedule = tc.schedule
		jobrules.Canonicalize(j)
		err := jobrules.Validate(j)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("schedule %+v: %v, want %q", tc.schedule.Cron, err, tc.want)
		}
	}
}
