package ui

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// deployment returns the newest deployment of a job.
func (h *house) deployment(t *testing.T, job string) *api.Deployment {
	t.Helper()
	d, _, err := h.agent.Client.Jobs().LatestDeployment(job, nil)
	if err != nil || d == nil {
		t.Fatalf("deployment of %s: %v", job, err)
	}
	return d
}

// purgeAfter removes a job and its history at the end of the test, so that the test can be repeated.
func (h *house) purgeAfter(t *testing.T, job string) {
	t.Helper()
	t.Cleanup(func() {
		if _, _, err := h.agent.Client.Jobs().Deregister(job, true, nil); err != nil {
			t.Error(err)
		}
	})
}

// cpu returns the CPU of the first task of a job, which the versions of canary differ in.
func (h *house) cpu(t *testing.T, job string) int {
	t.Helper()
	var out struct {
		TaskGroups []struct {
			Tasks []struct{ Resources struct{ CPU int } }
		}
	}
	h.call(t, "GET", jobAPI(job), nil, &out)
	return out.TaskGroups[0].Tasks[0].Resources.CPU
}

// A canary deployment is paused, resumed, promoted and failed from the page of its job.
func TestDeploymentActions(t *testing.T) {
	h := open(t)
	h.purgeAfter(t, "rollout")
	h.run(t, canary("rollout", 2, 20))
	h.waitDeployment(t, "rollout", "successful", "")
	h.run(t, canary("rollout", 2, 21))
	h.waitAllocs(t, "rollout", "running", 3)
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo(jobPath("rollout", ""), "1 of 1, not promoted")
	h.waitDeployment(t, "rollout", "running", "requires manual promotion")

	p.click("Pause")
	p.waitText("No further allocation is replaced until the deployment is resumed.")
	p.inDialog("Pause")
	h.waitDeployment(t, "rollout", "paused", "")
	p.screenshot("deployment-paused")
	p.axe(views[0])
	p.click("Resume")
	p.inDialog("Resume")
	h.waitDeployment(t, "rollout", "running", "")
	p.waitText("Pause")
	p.click("Promote")
	p.inDialog("Promote")
	h.waitDeployment(t, "rollout", "successful", "")
	for name, group := range h.deployment(t, "rollout").TaskGroups {
		if !group.Promoted {
			t.Errorf("group %s is not promoted", name)
		}
	}
	p.wait("the section of the deployment is gone", "![...document.querySelectorAll('h2')].some((e) => e.innerText === 'Deployment')")

	h.run(t, canary("rollout", 2, 22))
	p.goTo(jobPath("rollout", "deployments"), "1 of 1, not promoted")
	p.click("Fail")
	p.waitText("the job reverts to its last stable version")
	failed := h.deployment(t, "rollout").ID
	p.inDialog("Fail")
	testpace.Until(t, "the deployment has failed and the job is reverted", func() bool {
		d, _, err := h.agent.Client.Deployments().Info(failed, nil)
		return err == nil && d.Status == "failed" && h.cpu(t, "rollout") == 21
	})
	p.waitText("Version 3") // the deployment of the revert, by the event stream
	h.waitDeployment(t, "rollout", "successful", "")
	p.wait("no action is left", "![...document.querySelectorAll('main button')].some((b) => ['Fail', 'Pause', "+
		"'Promote'].includes(b.innerText))")
}

// The page of the versions shows what differs. The version that is chosen there is what the job then is.
func TestVersionDifferences(t *testing.T) {
	h := open(t)
	first := mock("history", `meta { owner = "first" }`)
	h.purgeAfter(t, "history")
	h.run(t, first)
	second := mock("history", `meta {
    owner = "second"
    added = "yes"
  }`)
	second = strings.Replace(second, `group "web" {`, "group \"web\" {\n    count = 2", 1)
	h.run(t, second)
	h.run(t, strings.Replace(second, "cpu    = 20", "cpu    = 23", 1))
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo(jobPath("history", "versions"), "The oldest version that is stored.")
	panel := func(version string) string {
		return evaluate[string](p, "[...document.querySelectorAll('article')].find((a) => "+
			"a.querySelector('h2').innerText === 'Version "+version+"').innerText.replace(/\\s+/g, ' ')")
	}
	for version, want := range map[string][]string{
		"2": {"task server", "CPU: 20 → 23"},
		"1": {"Meta[owner]: first → second", "Meta[added]: yes", "group web", "Count: 1 → 2"},
	} {
		got := panel(version)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("version %s shows %q, want %q in it", version, got, text)
			}
		}
	}
	if got := panel("2"); strings.Contains(got, "owner") || strings.Contains(got, "Count") {
		t.Errorf("version 2 shows what did not change: %q", got)
	}
	evaluate[bool](p, "[...document.querySelectorAll('article')].find((a) => a.querySelector('h2').innerText === "+
		"'Version 0').querySelector('button').click() || true")
	p.waitText("Revert to version 0?")
	p.inDialog("Revert")
	p.waitText("Version 3")
	var job struct {
		Version    int
		Meta       map[string]string
		TaskGroups []struct{ Count int }
	}
	h.call(t, "GET", jobAPI("history"), nil, &job)
	if job.Version != 3 || job.Meta["owner"] != "first" || job.Meta["added"] != "" || job.TaskGroups[0].Count != 1 ||
		h.cpu(t, "history") != 20 {
		t.Errorf("after the revert the job is %+v", job)
	}
	if got := panel("3"); !strings.Contains(got, "current") || !strings.Contains(got, "CPU: 23 → 20") {
		t.Errorf("version 3 shows %q", got)
	}
}

// A periodic job is run before its time, and its run appears without a reload.
func TestRunPeriodicNow(t *testing.T) {
	h := open(t)
	h.purgeAfter(t, "yearly")
	h.run(t, `job "yearly" {
  type = "batch"
  periodic { crons = ["0 0 1 1 *"] }
  group "report" {
    task "make" {
      driver = "mock_driver"
      config { run_for = "1ms" }
    }
  }
}`)
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo(jobPath("yearly", ""), "No run is stored.")
	p.waitText("0 0 1 1 *")
	p.click("Run now")
	p.inDialog("Run now")
	p.waitText("1 ended.")
	var runs []struct{ ID, ParentID, Status string }
	h.call(t, "GET", "/v1/jobs?prefix=yearly/periodic-", nil, &runs)
	if len(runs) != 1 || runs[0].ParentID != "yearly" || runs[0].Status != "dead" {
		t.Fatalf("the runs are %+v", runs)
	}
	h.purgeAfter(t, runs[0].ID)
	p.click(strings.TrimPrefix(runs[0].ID, "yearly/"))
	p.waitText("Complete")
	p.click("yearly") // the breadcrumb
	p.waitText("Run now")
}

// The count is bounded by the scaling block. The reason is kept, and a refusal of the server is shown.
func TestScaleAction(t *testing.T) {
	h := open(t)
	source := strings.Replace(canary("elastic", 1, 20), "update {", "scaling {\n      min = 1\n      max = 3\n    }\n    update {", 1)
	h.purgeAfter(t, "elastic")
	h.run(t, source)
	h.waitDeployment(t, "elastic", "successful", "")
	p := h.signedIn(t, "400", "500")
	p.show(views[0])
	p.goTo(jobPath("elastic", ""), "1 running")
	p.click("Scale")
	for count, fault := range map[string]string{
		"4":   "The scaling block allows 1 to 3.",
		"0":   "The scaling block allows 1 to 3.",
		"two": "Use a whole number.",
		"-1":  "Use a whole number.",
	} {
		p.typeInto("New count", count)
		p.waitText(fault)
		p.wait("the count is refused", "document.querySelector('dialog button[type=submit]').disabled")
	}
	p.typeInto("New count", "3")
	p.typeInto("Reason, kept with the scaling event", "sale "+hostile("r"))
	p.inDialog("Scale")
	p.waitText("3 running")
	var status struct {
		TaskGroups map[string]struct {
			Desired int
			Events  []struct{ Message string }
		}
	}
	h.call(t, "GET", jobAPI("elastic")+"/scale", nil, &status)
	if web := status.TaskGroups["web"]; web.Desired != 3 || len(web.Events) == 0 || web.Events[0].Message != "sale "+hostile("r") {
		text, _ := json.Marshal(status)
		t.Errorf("after scaling: %s", text)
	}
	h.waitDeployment(t, "elastic", "successful", "")

	h.run(t, strings.Replace(strings.Replace(source, "cpu    = 20", "cpu    = 21", 1), "count = 1", "count = 3", 1))
	p.waitText("not promoted")
	p.click("Scale")
	p.typeInto("New count", "2")
	p.pressIn("Scale")
	p.waitText("active deployment")
	if got := h.job(t, "elastic").TaskGroups[0].Count; got != 3 {
		t.Errorf("scaled to %d during a deployment", got)
	}
}
