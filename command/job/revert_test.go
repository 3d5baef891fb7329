package job

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// A started job has the scaling policies of groups and tasks that were enabled before the stop.
func TestEnableScaling(t *testing.T) {
	version := func(enabled, cpu, mem bool) *api.Job {
		return &api.Job{TaskGroups: []*api.TaskGroup{{Name: new("g"), Scaling: &api.ScalingPolicy{Type: "horizontal", Enabled: &enabled},
			Tasks: []*api.Task{{Name: "t", ScalingPolicies: []*api.ScalingPolicy{{Type: "vertical_cpu", Enabled: &cpu},
				{Type: "vertical_mem", Enabled: &mem}}}}}}}
	}
	stopped := version(false, false, false)
	enableScaling(stopped, version(true, true, false))
	g := stopped.TaskGroups[0]
	if !*g.Scaling.Enabled || !*g.Tasks[0].ScalingPolicies[0].Enabled || *g.Tasks[0].ScalingPolicies[1].Enabled {
		t.Errorf("enabled: group %t, cpu %t, mem %t, want true, true, false", *g.Scaling.Enabled, *g.Tasks[0].ScalingPolicies[0].Enabled,
			*g.Tasks[0].ScalingPolicies[1].Enabled)
	}
	g.Scaling = nil
	if !hasScaling(stopped) {
		t.Error("a job with policies of tasks only has none")
	}
}
