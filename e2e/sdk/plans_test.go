package sdk_test

import (
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A validation returns the errors of a job, even if the job has no ID.
func TestSDKValidates(t *testing.T) {
	c := harness.SDKClient(t, harness.DevAgent(t), "")
	resp, _, err := c.Jobs().Validate(jobCalled("good"), nil)
	if err != nil || len(resp.ValidationErrors) > 0 || resp.Error != "" {
		t.Errorf("Validate() = %+v, %v", resp, err)
	}
	empty, unnamed := "", jobCalled("x")
	unnamed.Name = nil
	for name, j := range map[string]*sdk.Job{"no ID": jobCalled("x"), "an empty ID": jobCalled("x"), "neither ID nor name": unnamed,
		"nothing": {}} {
		if j.ID = nil; name == "an empty ID" {
			j.ID = &empty
		}
		resp, _, err := c.Jobs().Validate(j, nil)
		if err != nil || len(resp.ValidationErrors) == 0 || !strings.Contains(resp.Error, "missing ID") {
			t.Errorf("Validate() of a job with %s = %+v, %v", name, resp, err)
		}
		_, _, err = c.Jobs().Register(j, nil)
		harness.WantError(t, "Register() of a job with "+name, err, "400", "Job must have an ID")
	}
	_, _, err = c.Jobs().Validate(nil, nil)
	harness.WantError(t, "Validate() of no job", err, "400", "Job must be specified")
}

// Constraints that count allocations are rejected in tasks, also over the API.
func TestSDKRejectsDistinctInTasks(t *testing.T) {
	c := sdkServer(t)
	for _, operator := range []string{sdk.ConstraintDistinctHosts, sdk.ConstraintDistinctProperty} {
		job := jobCalled("distinct")
		job.TaskGroups[0].Tasks[0].Constraints = []*sdk.Constraint{{LTarget: "${node.class}", Operand: operator}}
		want := "operator " + operator + ", which is not allowed in tasks"
		resp, _, err := c.Jobs().Validate(job, nil)
		if err != nil || !strings.Contains(resp.Error, want) {
			t.Errorf("Validate() = %+v, %v, want %q", resp, err, want)
		}
		_, _, err = c.Jobs().Plan(job, false, nil)
		harness.WantError(t, "Plan()", err, "400", want)
		_, _, err = c.Jobs().Register(job, nil)
		harness.WantError(t, "Register()", err, "400", want)
		job.TaskGroups[0].Constraints, job.TaskGroups[0].Tasks[0].Constraints = job.TaskGroups[0].Tasks[0].Constraints, nil
		if resp, _, err := c.Jobs().Validate(job, nil); err != nil || resp.Error != "" {
			t.Errorf("Validate() with the constraint in the group = %+v, %v", resp, err)
		}
	}
}

// memory_max without memory oversubscription is a warning. The node pool of the job may override
// the configuration of the region.
func TestSDKWarnsOfMemoryMax(t *testing.T) {
	c := sdkServer(t)
	yes, no := true, false
	for name, enabled := range map[string]*bool{"on": &yes, "off": &no, "unset": nil} {
		pool := &sdk.NodePool{Name: name, SchedulerConfiguration: &sdk.NodePoolSchedulerConfiguration{MemoryOversubscriptionEnabled: enabled}}
		if _, err := c.NodePools().Register(pool, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, region := range []bool{false, true} {
		conf, _, err := c.Operator().SchedulerGetConfiguration(nil)
		if err != nil {
			t.Fatal(err)
		}
		conf.SchedulerConfig.MemoryOversubscriptionEnabled = region
		if _, _, err := c.Operator().SchedulerSetConfiguration(conf.SchedulerConfig, nil); err != nil {
			t.Fatal(err)
		}
		for pool, warns := range map[string]bool{"default": !region, "unset": !region, "on": false, "off": true} {
			warnsOfMemory(t, c, pool, warns)
		}
	}
}

// warnsOfMemory checks the warnings for a job with memory_max in a pool.
func warnsOfMemory(t *testing.T, c *sdk.Client, pool string, want bool) {
	t.Helper()
	memory, limit := 32, 64
	job := jobCalled("memory-" + pool)
	job.NodePool, job.TaskGroups[0].Tasks[0].Resources = &pool, &sdk.Resources{MemoryMB: &memory, MemoryMaxMB: &limit}
	valid, _, err := c.Jobs().Validate(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, _, err := c.Jobs().Plan(job, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	registered, _, err := c.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	for call, text := range map[string]string{"Validate()": valid.Warnings, "Plan()": plan.Warnings, "Register()": registered.Warnings} {
		if strings.Contains(text, "memory_max has no effect") != want {
			t.Errorf("%s in the pool %q warns %q, want a warning %t", call, pool, text, want)
		}
	}
}

// A plan lists the evaluations that a registration would create, even without nodes, and creates
// none.
func TestSDKPlansEvaluations(t *testing.T) {
	for name, c := range map[string]*sdk.Client{"no node": sdkServer(t), "no room": harness.SDKClient(t, harness.DevAgent(t), "")} {
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
	if err != nil || len(plan.CreatedEvals) != 1 || plan.CreatedEvals[0].Status != sdk.EvalStatusBlocked ||
		plan.CreatedEvals[0].JobID != *job.ID {
		t.Fatalf("Plan() = %+v, %v, want one blocked evaluation", plan, err)
	}
	if plan.Annotations == nil || len(plan.FailedTGAllocs) != 1 {
		t.Errorf("Plan() = %+v", plan)
	}
	if evals, _, err := c.Evaluations().List(nil); err != nil || len(evals) > 0 {
		t.Errorf("evaluations after the plan = %d, %v", len(evals), err)
	}
}
