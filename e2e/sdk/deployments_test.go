package sdk_test

import (
	"os/exec"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A deployment whose allocation failed permanently fails before its progress deadline. Later
// evaluations of the unchanged job carry its ID, so that tools exit with 1.
func TestSDKFailedDeployment(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	text := harness.Job("broken", "update {\n progress_deadline = \"1h\"\n}", harness.Once+harness.Shell("exit 1"))
	spec, err := c.Jobs().ParseHCL(text, true)
	if err != nil {
		t.Fatal(err)
	}
	register := func() string {
		t.Helper()
		resp, _, err := c.Jobs().Register(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp.EvalID
	}
	first := deploymentOf(t, a, c, register())
	harness.Within(t, harness.Patience, "the deployment failed", func() bool {
		d, _, err := c.Deployments().Info(first, nil)
		return err == nil && d.Status == "failed" && d.StatusDescription == "Failed due to unhealthy allocations"
	})
	if got := deploymentOf(t, a, c, register()); got != first {
		t.Errorf("the evaluation of the unchanged job has the deployment %q, want %q", got, first)
	}
	eval, _, err := c.Jobs().EvaluateWithOpts("broken", sdk.EvalOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := deploymentOf(t, a, c, eval); got != first {
		t.Errorf("Job.Evaluate makes an evaluation with the deployment %q, want %q", got, first)
	}
	file := a.Dir + "/broken.nomad.hcl"
	harness.WriteFile(t, file, text)
	for _, args := range [][]string{{"job", "run", file}, {"job", "eval", "broken"}} {
		cmd := exec.CommandContext(t.Context(), "nomad", args...)
		cmd.Env = append(cmd.Environ(), "NOMAD_ADDR="+a.Address())
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !harness.ContainsJSON(string(out), "failed") {
			t.Errorf("nomad %v exits with %d, want 1:\n%s", args, code, out)
		}
	}
}

// A registration of the unchanged job follows the running deployment.
func TestSDKRunningDeployment(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	spec, err := c.Jobs().ParseHCL(harness.Job("slow",
		"update {\n min_healthy_time = \"1h\"\n healthy_deadline = \"2h\"\n progress_deadline = \"3h\"\n}", harness.SmallTask), true)
	if err != nil {
		t.Fatal(err)
	}
	var got [2]string
	for i := range got {
		resp, _, err := c.Jobs().Register(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = deploymentOf(t, a, c, resp.EvalID)
	}
	if got[0] == "" || got[0] != got[1] {
		t.Errorf("the evaluations have the deployments %q", got)
	}
}

// deploymentOf returns the deployment of a completed evaluation.
func deploymentOf(t *testing.T, a *cluster.Agent, c *sdk.Client, eval string) string {
	t.Helper()
	harness.Evaluated(t, a, eval)
	e, _, err := c.Evaluations().Info(eval, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e.DeploymentID
}
