package sdk_test

import (
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The calls of autoscalers, by the official SDK.
func TestSDKScaling(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	text := harness.Job("web", "type = \"batch\"",
		"scaling {\n min = 1\n max = 5\n policy {\n cooldown = \"1m\"\n}\n}\n"+harness.Shell("sleep 600"))
	spec, err := c.Jobs().ParseHCL(text, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Jobs().Register(spec, nil); err != nil {
		t.Fatal(err)
	}
	list, meta, err := c.Scaling().ListPolicies(&sdk.QueryOptions{Namespace: "*"})
	if err != nil || len(list) != 1 || !list[0].Enabled || meta.LastIndex == 0 {
		t.Fatalf("ListPolicies() = %v, %v, %v", list, meta, err)
	}
	policy, _, err := c.Scaling().GetPolicy(list[0].ID, nil)
	if err != nil || *policy.Min != 1 || *policy.Max != 5 || policy.Policy["cooldown"] != "1m" || policy.Target["Job"] != "web" {
		t.Fatalf("GetPolicy() = %+v, %v", policy, err)
	}
	group := policy.Target["Group"]
	count := 2
	resp, _, err := c.Jobs().Scale("web", group, &count, "more load", false, map[string]any{"cpu": 93.5, "why": []any{"a", "b"}}, nil)
	if err != nil || resp.EvalID == "" {
		t.Fatalf("Scale() = %+v, %v", resp, err)
	}
	harness.Await(t, a, "web", "running", 2)
	if _, _, err := c.Jobs().Scale("web", group, nil, "no metrics", true, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Jobs().ScaleWithRequest("web",
		&sdk.ScalingRequest{Count: new(int64(3)), Target: map[string]string{"Group": group}, JobModifyIndex: 1}, nil); err == nil ||
		!strings.Contains(err.Error(), "Enforcing job modify index 1") {
		t.Errorf("ScaleWithRequest() with an old index: %v", err)
	}
	status, _, err := c.Jobs().ScaleStatus("web", nil)
	if err != nil {
		t.Fatal(err)
	}
	g := status.TaskGroups[group]
	if g.Desired != 2 || g.Placed != 2 || g.Running != 2 || len(g.Events) != 2 || !g.Events[0].Error || *g.Events[1].Count != 2 ||
		g.Events[1].Meta["cpu"] != 93.5 || *g.Events[1].EvalID != resp.EvalID {
		t.Errorf("ScaleStatus() = %+v", g)
	}
	if _, _, err := c.Jobs().ScaleStatus("none", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("ScaleStatus() of no job: %v", err)
	}
	if _, _, err := c.Scaling().GetPolicy("none", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("GetPolicy() of no policy: %v", err)
	}
}

// The calls for periodic and parameterized jobs, by the official SDK.
func TestSDKLaunches(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	for _, text := range []string{harness.Job("cron", "type = \"batch\"\nperiodic {\n cron = \"@yearly\"\n}", harness.Shell("true")),
		harness.Job("each", "type = \"batch\"\nparameterized {\n meta_required = [\"k\"]\n}", harness.Shell("true"))} {
		spec, err := c.Jobs().ParseHCL(text, true)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Periodic != nil {
			plan, _, err := c.Jobs().Plan(spec, true, nil)
			next, nextErr := spec.Periodic.Next(plan.NextPeriodicLaunch.AddDate(0, 0, -1))
			if err != nil || nextErr != nil || !plan.NextPeriodicLaunch.Equal(next) {
				t.Errorf("next launch %v, by the SDK %v: %v, %v", plan.NextPeriodicLaunch, next, err, nextErr)
			}
		}
		if _, _, err := c.Jobs().Register(spec, nil); err != nil {
			t.Fatal(err)
		}
	}
	eval, _, err := c.Jobs().PeriodicForce("cron", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := harness.Evaluated(t, a, eval)
	if !strings.HasPrefix(e.JobID, "cron/periodic-") || e.TriggeredBy != "periodic-job" {
		t.Errorf("evaluation of the launch: %+v", e)
	}
	q := &sdk.WriteOptions{IdempotencyToken: "once"}
	opts := &sdk.DispatchOptions{JobID: "each", Meta: map[string]string{"k": "v"}, Payload: []byte("p"), IdPrefixTemplate: "x", Priority: 60}
	first, _, err := c.Jobs().DispatchOpts(opts, q)
	if err != nil || !strings.HasPrefix(first.DispatchedJobID, "each/dispatch-x-") {
		t.Fatalf("DispatchOpts() = %+v, %v", first, err)
	}
	again, _, err := c.Jobs().DispatchOpts(opts, q)
	if err != nil || again.DispatchedJobID != first.DispatchedJobID || again.EvalID != "" {
		t.Errorf("DispatchOpts() again = %+v, %v", again, err)
	}
}
