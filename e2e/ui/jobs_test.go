package ui

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

func jobPath(id, tab string) string {
	path := "/ui/jobs/" + url.PathEscape(id+"@default")
	if tab != "" {
		path += "/" + tab
	}
	return path
}

func jobAPI(id string) string { return "/v1/job/" + url.PathEscape(id) }

// canary is a job whose second version waits for its promotion.
func canary(id string, count, cpu int) string {
	return fmt.Sprintf(`job %q {
  ui {
    description = "The shop of the example"
    link {
      label = "Runbook"
      url   = "https://runbooks.example/shop"
    }
  }
  group "web" {
    count = %d
    update {
      max_parallel     = 1
      canary           = 1
      min_healthy_time = "10ms"
      healthy_deadline = "1m"
      auto_revert      = true
    }
    task "server" {
      driver = "mock_driver"
      config { run_for = "1h" }
      resources {
        cpu    = %d
        memory = 20
      }
    }
  }
}`, id, count, cpu)
}

// waitDeployment waits until the newest deployment of a job has a status and a text in its description.
func (h *house) waitDeployment(t *testing.T, job, status, description string) {
	t.Helper()
	testpace.Until(t, "deployment of "+job+" "+status, func() bool {
		d, _, err := h.agent.Client.Jobs().LatestDeployment(job, nil)
		return err == nil && d != nil && d.Status == status && strings.Contains(d.StatusDescription, description)
	})
}

func TestJobPages(t *testing.T) {
	h := open(t)
	h.run(t, canary("shop", 3, 20))
	h.waitDeployment(t, "shop", "successful", "")
	h.run(t, canary("shop", 3, 21))
	h.waitAllocs(t, "shop", "running", 4)
	h.run(t, `job "nightly/report" {
  type = "batch"
  parameterized { meta_required = ["day"] }
  group "report" {
    task "make" {
      driver = "mock_driver"
      config { run_for = "1ms" }
    }
  }
}`)
	h.run(t, strings.Replace(mock("huge", `type = "service"`), "memory = 20", "memory = 9000000", 1))
	h.run(t, `job "broken" {
  type = "batch"
  reschedule { attempts = 0 }
  group "broken" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "fails" {
      driver = "mock_driver"
      config {
        run_for   = "1ms"
        exit_code = 1
      }
    }
  }
}`)
	h.waitAllocs(t, "broken", "failed", 1)

	h.visit(t, visited{name: "overview", path: "/ui/", text: "Newest failed allocations"})
	h.visit(t, visited{name: "jobs", path: "/ui/jobs", text: "nightly/report"})
	h.visit(t, visited{name: "job", path: jobPath("shop", ""), text: "Promote"})
	h.visit(t, visited{name: "job-unplaced", path: jobPath("huge", ""), text: "without enough: memory"})
	h.visit(t, visited{name: "job-allocations", path: jobPath("shop", "allocations"), text: "healthy"})
	h.visit(t, visited{name: "job-deployments", path: jobPath("shop", "deployments"), text: "not promoted"})
	h.visit(t, visited{name: "job-versions", path: jobPath("shop", "versions"), text: "Revert to this"})
	h.visit(t, visited{name: "job-evaluations", path: jobPath("shop", "evaluations"), text: "job-register"})
	h.visit(t, visited{name: "job-definition", path: jobPath("shop", "definition"), text: "TaskGroups", allowed: []string{"404"}})
	h.visit(t, visited{name: "job-dispatch", path: jobPath("nightly/report", ""), text: "Runs", act: func(p *tab) {
		p.click("Dispatch")
		p.waitText("Payload")
	}})
	h.visit(t, visited{name: "settings", path: "/ui/settings/tokens", text: "Appearance"})
	h.visit(t, visited{name: "not-found", path: "/ui/no/such/page", text: "Page not found"})
}

// What a page does to a job is what the server then has, and the page shows it without a reload.
func TestJobActions(t *testing.T) {
	h := open(t)
	h.run(t, canary("act", 1, 20))
	h.waitDeployment(t, "act", "successful", "")
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo(jobPath("act", ""), "1 running")

	p.click("Scale")
	p.typeInto("New count", "2")
	p.inDialog("Scale")
	p.waitText("2 running")
	if got := h.job(t, "act").TaskGroups[0].Count; got != 2 {
		t.Errorf("count %d after scaling", got)
	}
	h.waitDeployment(t, "act", "successful", "")

	h.run(t, canary("act", 2, 21))
	p.waitText("not promoted") // by the event stream
	h.waitAllocs(t, "act", "running", 3)
	p.click("Promote")
	p.inDialog("Promote")
	h.waitDeployment(t, "act", "successful", "")

	p.goTo(jobPath("act", "versions"), "Revert to this")
	before := h.job(t, "act").Version
	p.click("Revert to this")
	p.inDialog("Revert")
	p.waitText(fmt.Sprintf("Version %d", before+1))

	p.goTo(jobPath("act", ""), "Stop")
	p.click("Stop")
	p.inDialog("Stop")
	p.waitText("Stopped")
	if !h.job(t, "act").Stop {
		t.Error("the job is not stopped")
	}
	p.click("Start")
	p.inDialog("Start")
	p.waitText("Running")
	if h.job(t, "act").Stop {
		t.Error("the job is not started")
	}

	p.click("Stop")
	p.check("Also purge it")
	p.inDialog("Stop and purge")
	p.wait("the list of jobs", "location.pathname === '/ui/jobs'")
}

// Two windows revert from the same version: the second gets a conflict and changes nothing.
func TestJobConflict(t *testing.T) {
	h := open(t)
	h.purgeAfter(t, "conflict")
	h.run(t, canary("conflict", 1, 20))
	h.waitDeployment(t, "conflict", "successful", "")
	h.run(t, canary("conflict", 1, 21))
	p := h.signedIn(t, "500", "400", "409")
	p.show(views[0])
	p.goTo(jobPath("conflict", "versions"), "Revert to this")
	p.click("Revert to this")
	h.run(t, canary("conflict", 1, 22))
	version := h.job(t, "conflict").Version
	p.waitText("Version 2") // the page behind the dialog is up to date
	p.pressIn("Revert")
	p.waitText(changedMeanwhile)
	if got := h.job(t, "conflict").Version; got != version {
		t.Errorf("version %d after the conflict, want %d", got, version)
	}
}

func TestDispatch(t *testing.T) {
	h := open(t)
	h.run(t, `job "letters" {
  type = "batch"
  parameterized {
    meta_required = ["to"]
    payload       = "required"
  }
  group "send" {
    task "send" {
      driver = "mock_driver"
      config { run_for = "1ms" }
    }
  }
}`)
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo(jobPath("letters", ""), "Dispatch")
	p.click("Dispatch")
	p.typeInto("to", "Zoë")
	p.typeInto("Payload", "grüße → שלום")
	p.inDialog("Dispatch")
	p.wait("the page of the run", "location.pathname.includes('letters%2Fdispatch-')")
	p.waitText("Complete")
	var runs []struct{ ID string }
	h.call(t, "GET", "/v1/jobs?prefix=letters/", nil, &runs)
	var run struct {
		Payload []byte
		Meta    map[string]string
	}
	h.call(t, "GET", jobAPI(runs[0].ID), nil, &run)
	if string(run.Payload) != "grüße → שלום" || run.Meta["to"] != "Zoë" {
		t.Errorf("dispatched %q with %v", run.Payload, run.Meta)
	}
}
