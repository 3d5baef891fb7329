package jobrules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// A restart policy whose attempts take longer than its interval is an error in a group and a warning in a task, as in
// Nomad 2.0. A task that inherits the policy of its group has no warning of its own.
func TestRestartAttempts(t *testing.T) {
	policy := func(attempts int, interval, delay time.Duration) *nomad.RestartPolicy {
		return &nomad.RestartPolicy{Mode: "fail", Attempts: attempts, Interval: interval, Delay: delay}
	}
	for name, c := range map[string]struct {
		group, task   *nomad.RestartPolicy
		fault, warned string
	}{
		"fits": {policy(4, time.Minute, 15*time.Second), policy(4, time.Minute, 15*time.Second), "", ""},
		"group": {policy(5, time.Minute, 15*time.Second), nil,
			"restart cannot make 5 attempts with a delay of 15s in an interval of 1m0s", "restarted without limit"},
		"task": {nil, policy(2, 10*time.Second, 15*time.Second), "",
			"2 attempts with a delay of 15s take longer than the interval of 10s, so the task is restarted without limit"},
		"no attempts":           {nil, policy(0, 10*time.Second, 15*time.Second), "", ""},
		"no delay":              {nil, policy(9, 10*time.Second, 0), "", ""},
		"short interval":        {nil, policy(1, time.Second, 0), "interval of restart is 1s: the minimum is 5s", ""},
		"short interval, delay": {nil, policy(1, time.Second, 2*time.Second), "interval of restart is 1s: the minimum is 5s", ""},
	} {
		j := sample("service")
		j.TaskGroups[0].RestartPolicy, j.TaskGroups[0].Tasks[0].RestartPolicy = c.group, c.task
		jobrules.Canonicalize(j)
		err := jobrules.Validate(j)
		if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
		if got := strings.Join(jobrules.Warnings(j), ""); c.warned == "" && got != "" || !strings.Contains(got, c.warned) {
			t.Errorf("%s: warnings %q, want %q", name, got, c.warned)
		}
	}
}
