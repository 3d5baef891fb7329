package e2e

import (
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"
)

// A validation answers with what is wrong with a job, also where the job has no ID.
func TestSDKValidates(t *testing.T) {
	c := clientOf(t, devAgent(t), "")
	resp, _, err := c.Jobs().Validate(jobCalled("good"), nil)
	if err != nil || len(resp.ValidationErrors) > 0 || resp.Error != "" {
		t.Errorf("Validate() = %+v, %v", resp, err)
	}
	empty, unnamed := "", jobCalled("x")
	unnamed.Name = nil
	for name, j := range map[string]*sdk.Job{"no ID": jobCalled("x"), "an empty ID": jobCalled("x"), "neither ID nor name": unnamed, "nothing": {}} {
		if j.ID = nil; name == "an empty ID" {
			j.ID = &empty
		}
		resp, _, err := c.Jobs().Validate(j, nil)
		if err != nil || len(resp.ValidationErrors) == 0 || !strings.Contains(resp.Error, "no ID") {
			t.Errorf("Validate() of a job with %s = %+v, %v", name, resp, err)
		}
		_, _, err = c.Jobs().Register(j, nil)
		answered(t, "Register() of a job with "+name, err, "400", "Job must have an ID")
	}
	_, _, err = c.Jobs().Validate(nil, nil)
	answered(t, "Validate() of no job", err, "400", "Job must be specified")
}

// A plan lists the evaluations that a registration would make, also where no node exists,
// and makes none.
func TestSDKPlansEvaluations(t *testing.T) {
	for name, c := range map[string]*sdk.Client{"no node": sdkServer(t), "no room": clientOf(t, devAgent(t), "")} {
		for _, kind := range []string{"service", "batch"} {
			t.Run(name+"/"+kind, func(t *testing.T) { plansEvaluation(t, c, kind) })
		}
	}
}

func plansEvaluation(t *testing.T, c *sdk.Client, kind string) {
	t.Helper()
	job, memory := jobCalled("planned-"+kind), 1<<30
	job.Type, job.TaskGroups[0].Tasks[0].Resources = &kind, &sdk.Resources{MemoryMB: &memory}
	plan, _, err := c.Jobs().Plan(job, true, nil)
	if err != nil || len(plan.CreatedEvals) != 1 || plan.CreatedEvals[0].Status != sdk.EvalStatusBlocked || plan.CreatedEvals[0].JobID != *job.ID {
		t.Fatalf("Plan() = %+v, %v, want one blocked evaluation", plan, err)
	}
	if plan.Annotations == nil || len(plan.FailedTGAllocs) != 1 {
		t.Errorf("Plan() = %+v", plan)
	}
	if evals, _, err := c.Evaluations().List(nil); err != nil || len(evals) > 0 {
		t.Errorf("evaluations after the plan = %d, %v", len(evals), err)
	}
}
