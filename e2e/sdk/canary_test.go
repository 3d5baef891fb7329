package sdk_test

import (
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The SDK promotes a canary, tags versions and reverts the job.
func TestSDKCanary(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	spec, err := c.Jobs().ParseHCL(harness.Job("web",
		"update {\n canary = 1\n min_healthy_time = \"10ms\"\n health_check = \"task_states\"\n}", harness.SmallTask), true)
	if err != nil {
		t.Fatal(err)
	}
	latest := func() *sdk.Deployment {
		t.Helper()
		d, _, err := c.Jobs().LatestDeployment("web", nil)
		if err != nil {
			t.Fatal(err)
		}
		if d == nil { // the job was not evaluated yet
			d = &sdk.Deployment{}
		}
		return d
	}
	successful := func(version uint64) {
		t.Helper()
		harness.Within(t, harness.Patience, "the deployment is successful", func() bool {
			d := latest()
			return d.JobVersion == version && d.Status == "successful"
		})
	}
	register := func() {
		t.Helper()
		if _, _, err := c.Jobs().Register(spec, nil); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(version uint64) *sdk.Deployment {
		t.Helper()
		harness.Within(t, harness.Patience, "the canary is healthy", func() bool {
			d := latest()
			for _, g := range d.TaskGroups {
				if d.JobVersion != version || g.DesiredCanaries != 1 || g.HealthyAllocs != 1 || len(g.PlacedCanaries) != 1 || g.Promoted {
					return false
				}
			}
			return d.StatusDescription == "Deployment is running but requires manual promotion"
		})
		return latest()
	}
	register()
	successful(0)
	spec.SetMeta("k", "v")
	register()
	d := waits(1)
	if _, _, err := c.Deployments().PromoteGroups(d.ID, []string{"nope"}, nil); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("PromoteGroups() of an unknown group: %v", err)
	}
	if resp, _, err := c.Deployments().PromoteAll(d.ID, nil); err != nil || resp.EvalID == "" {
		t.Fatalf("PromoteAll() = %+v, %v", resp, err)
	}
	successful(1)
	if _, _, err := c.Deployments().PromoteAll(d.ID, nil); err == nil || !strings.Contains(err.Error(), "can't promote terminal deployment") {
		t.Errorf("PromoteAll() of a successful deployment: %v", err)
	}

	if _, err := c.Jobs().TagVersion("web", 0, "good", "the first", nil); err != nil {
		t.Fatal(err)
	}
	versions, diffs, _, err := c.Jobs().VersionsOpts("web", &sdk.VersionsOptions{Diffs: true, DiffTag: "good"}, nil)
	if err != nil || len(versions) != 2 || len(diffs) != 1 || versions[1].VersionTag == nil || versions[1].VersionTag.Name != "good" ||
		versions[1].VersionTag.TaggedTime == 0 {
		t.Errorf("VersionsOpts() = %d versions, %d diffs, %v", len(versions), len(diffs), err)
	}
	wrong := uint64(7)
	if _, _, err := c.Jobs().Revert("web", 0, &wrong, nil, "", ""); err == nil ||
		!strings.Contains(err.Error(), "Current job has version 1; enforcing version 7") {
		t.Errorf("Revert() with a wrong version: %v", err)
	}
	if resp, _, err := c.Jobs().Revert("web", 0, nil, nil, "", ""); err != nil || resp.EvalID == "" {
		t.Fatalf("Revert() = %+v, %v", resp, err)
	}
	d = waits(2)
	if now, _, err := c.Jobs().Info("web", nil); err != nil || *now.Version != 2 || now.VersionTag != nil || now.Meta["k"] != "" {
		t.Errorf("after the revert: %+v, %v", now, err)
	}
	if _, err := c.Jobs().UntagVersion("web", "good", nil); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Deployments().Fail(d.ID, nil); err != nil {
		t.Error(err)
	}
}
