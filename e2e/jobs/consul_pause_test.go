package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// pauseJob is a job with a service of the group and one of the task. Both have a script check that runs in the task. The
// deployment waits for the checks.
func pauseJob(tag, schedule string) string {
	service := func(name, more string) string {
		return fmt.Sprintf(`service {
      name = %q
      tags = [%q]
      %s
      check {
        name     = "script"
        type     = "script"
        task     = "t"
        command  = "/bin/true"
        interval = "1s"
        timeout  = "2s"
      }
    }`, name, tag, more)
	}
	return harness.Job("duty", "", fmt.Sprintf(`
    update {
      min_healthy_time = "1s"
    }
    %s
    %s`, service("web", "port = \"80\"\naddress = \"127.0.0.1\""), harness.Shell("exec sleep 1000", service("side", ""), schedule)))
}

// window returns a schedule block whose window is open, or opens in some hours.
func window(open bool) string {
	start := time.Now().UTC().Add(-time.Hour)
	if !open {
		start = start.Add(6 * time.Hour)
	}
	end := start.Add(5 * time.Hour)
	return fmt.Sprintf("schedule {\n cron {\n start = \"0 %d * * * *\"\n end = \"0 %d\"\n timezone = \"UTC\"\n }\n }\n", start.Hour(), end.Hour())
}

// setPause sets the state of a task's schedule.
func (f *consulFleet) setPause(al *api.AllocationListStub, state string) {
	f.T.Helper()
	harness.Succeeds(f.T, state+" the task", func() error {
		return f.Server.Client.Allocations().SetPauseState(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, nil, "t", state)
	})
}

// again kills the agent of a node and starts the next one.
func (f *consulFleet) again(a *cluster.Agent) *cluster.Agent {
	f.T.Helper()
	if err := a.Kill(); err != nil {
		f.T.Fatal(err)
	}
	return harness.Restart(f.T, a)
}

// rests waits until Consul has the service of the group only, and the TTL of its script has ended.
func (f *consulFleet) rests(when string, names map[string]string, want string) {
	f.T.Helper()
	harness.Succeeds(f.T, when+": only the service of the group", func() error {
		if got := f.registrations(names); strings.Contains(got, "-side-") || got == "" {
			return fmt.Errorf("Consul has %q", got)
		}
		return nil
	})
	f.consul.Advance(time.Minute)
	f.has(when, names, want)
}

// TestConsulPause checks that Consul has the services of a task while it runs and not while it is paused, across restarts of
// the agent, updates in place, and losses of Consul. The services of the group stay until the end.
func TestConsulPause(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := newConsulFleet(t)
	one := f.join("one")
	defer f.Purge()
	set := func(m testconsul.Mode) {
		t.Helper()
		if err := f.consul.Set(m); err != nil {
			t.Fatal(err)
		}
	}
	harness.Run(t, f.Server, pauseJob("blue", ""))
	names := f.running(map[string]string{}, 1)
	al := harness.OnlyAlloc(t, f.Server, "duty")
	// The process of the check ends with the task, so that its TTL ends.
	resting := func(tag string) string { return fmt.Sprintf("a-group-g-web-80[%s][script=critical]", tag) }
	serving := func(tag string) []string {
		return []string{fmt.Sprintf("a-group-g-web-80[%s][script=passing]", tag), fmt.Sprintf("a-t-side-[%s][script=passing]", tag)}
	}
	f.has("start", names, serving("blue")...)

	f.setPause(al, "pause")
	f.rests("paused", names, resting("blue"))
	f.again(one)
	f.rests("agent restarted while paused", names, resting("blue"))
	harness.Run(t, f.Server, pauseJob("green", ""))
	f.rests("updated in place while paused", names, resting("green"))
	if err := f.consul.Restart(); err != nil {
		t.Fatal(err)
	}
	f.rests("empty Consul while paused", names, resting("green"))
	f.setPause(al, "run")
	f.has("resumed", names, serving("green")...)

	set(testconsul.Mode{Refuse: true})
	f.setPause(al, "pause")
	harness.Within(t, harness.Patience, "the task is paused without Consul", func() bool {
		return harness.OnlyAlloc(t, f.Server, "duty").TaskStates["t"].State == "pending"
	})
	set(testconsul.Mode{})
	f.rests("Consul is back while paused", names, resting("green"))
	f.setPause(al, "scheduled")
	f.has("the schedule applies again", names, serving("green")...)

	f.setPause(al, "pause")
	f.rests("paused again", names, resting("green"))
	harness.Stop(t, f.Server, "duty")
	f.has("stopped while paused", names)
	harness.Await(t, f.Server, "duty", "complete", 1)
}

// TestConsulPause_AgentKilled checks that the next agent removes the services of a task that was paused while Consul was down.
func TestConsulPause_AgentKilled(t *testing.T) {
	t.Parallel() // it waits for a minute until leftovers are removed
	harness.NeedsRoot(t)
	f := newConsulFleet(t)
	one := f.join("one")
	defer f.Purge()
	harness.Run(t, f.Server, pauseJob("blue", ""))
	names := f.running(map[string]string{}, 1)
	f.has("start", names, "a-group-g-web-80[blue][script=passing]", "a-t-side-[blue][script=passing]")
	if err := f.consul.Set(testconsul.Mode{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	al := harness.OnlyAlloc(t, f.Server, "duty")
	f.setPause(al, "pause")
	harness.Within(t, harness.Patience, "the task is paused", func() bool {
		return harness.OnlyAlloc(t, f.Server, "duty").TaskStates["t"].State == "pending"
	})
	f.setPause(al, "pause") // returns when the end of the process is on the disk
	f.again(one)
	if err := f.consul.Set(testconsul.Mode{}); err != nil {
		t.Fatal(err)
	}
	f.consul.Advance(time.Minute) // the TTL of the script ends
	harness.Within(t, 3*time.Minute, "only the service of the group is registered", func() bool {
		return f.registrations(names) == "a-group-g-web-80[blue][script=critical]"
	})
}

// TestConsulSchedule checks that the deployment of a task outside of its schedule succeeds without its checks, and that
// updates of the schedule in place register and remove the services of the task.
func TestConsulSchedule(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := newConsulFleet(t)
	one := f.join("one")
	defer f.Purge()
	const group = "a-group-g-web-80[blue]"
	succeeds := func(version uint64) {
		t.Helper()
		harness.Succeeds(t, "the deployment succeeds", func() error {
			d, _, err := f.Server.Client.Jobs().LatestDeployment("duty", nil)
			if err == nil && (d == nil || d.JobVersion != version || d.Status != "successful") {
				err = fmt.Errorf("deployment %+v", d)
			}
			return err
		})
	}
	harness.Run(t, f.Server, pauseJob("blue", window(false)))
	names := f.running(map[string]string{}, 1)
	f.rests("outside of the schedule", names, group+"[script=critical]")
	succeeds(0)
	if s := harness.OnlyAlloc(t, f.Server, "duty").TaskStates["t"]; !s.StartedAt.IsZero() || s.Paused != "scheduled_pause" {
		t.Errorf("the task is %s, %q, started at %s, want one that never started", s.State, s.Paused, s.StartedAt)
	}
	f.again(one)
	f.rests("agent restarted outside of the schedule", names, group+"[script=critical]")

	harness.Run(t, f.Server, pauseJob("blue", window(true)))
	f.has("within the schedule", names, group+"[script=passing]", "a-t-side-[blue][script=passing]")
	succeeds(1)
	out, err := harness.Command(t, f.Server, "alloc", "checks", harness.OnlyAlloc(t, f.Server, "duty").ID)
	if err != nil || strings.Count(out, "success") != 2 {
		t.Errorf("alloc checks: %v\n%s", err, out)
	}
	harness.Run(t, f.Server, pauseJob("blue", window(false)))
	f.rests("outside again", names, group+"[script=critical]")
	events := harness.Events(harness.OnlyAlloc(t, f.Server, "duty"), "t")
	if slices.Contains(events, "Restarting") || len(names) != 1 {
		t.Errorf("events %q of %d allocations, want one without a restart", events, len(names))
	}
}
