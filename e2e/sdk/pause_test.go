package sdk_test

import (
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// Nomad's client library pauses and resumes a task.
func TestSDKPause(t *testing.T) {
	a := harness.DevAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	harness.Run(t, a, harness.Job("web", `type = "service"`, harness.Shell("sleep 3600")))
	al := harness.Await(t, a, "web", "running", 1)[0]
	alloc, _, err := c.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ set, want, state string }{{"pause", "force_pause", "pending"}, {"run", "force_run", "running"},
		{"scheduled", "", "running"}} {
		if err := c.Allocations().SetPauseState(alloc, nil, "t", step.set); err != nil {
			t.Fatal(err)
		}
		got, _, err := c.Allocations().GetPauseState(alloc, nil, "t")
		if err != nil || got != step.want {
			t.Errorf("after %s the state is %q, %v, want %q", step.set, got, err, step.want)
		}
		testpace.Within(t, harness.Patience, "the task is "+step.state, func() bool {
			now, _, err := c.Allocations().Info(al.ID, nil)
			return err == nil && now.TaskStates["t"].State == step.state
		})
	}
	for _, tc := range []struct{ task, state, want string }{
		{"t", "sleep", "400"}, {"nosuch", "pause", "400"}, {"", "pause", "400"},
	} {
		if err := c.Allocations().SetPauseState(alloc, nil, tc.task, tc.state); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("SetPauseState(%q, %q) = %v, want %s", tc.task, tc.state, err, tc.want)
		}
	}
}
