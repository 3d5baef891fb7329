package jobrules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestMaxRunDuration(t *testing.T) {
	for _, tc := range []struct {
		jobType string
		limit   time.Duration
		want    string // "" for a valid job
	}{
		{"batch", time.Hour, ""},
		{"sysbatch", time.Second, ""},
		{"batch", 0, "max_run_duration is 0s: it must be more than 0"},
		{"sysbatch", -time.Second, "max_run_duration is -1s"},
		{"service", time.Hour, "max_run_duration is for batch and sysbatch jobs only, not service jobs"},
		{"system", time.Hour, "not system jobs"},
	} {
		j := sample(tc.jobType)
		j.TaskGroups[0].MaxRunDuration = &tc.limit
		jobrules.Canonicalize(j)
		err := jobrules.Validate(j)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s job with %s: %v", tc.jobType, tc.limit, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s job with %s: %v, want %q", tc.jobType, tc.limit, err, tc.want)
		}
	}
}
