package jobs_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// dutyJob is a job with a service whose tags differ for canaries. Another version replaces its allocation.
func dutyJob(version, service, more string) string {
	return harness.Job("duty", "", fmt.Sprintf(`
    update {
      canary       = 1
      health_check = "task_states"
      min_healthy_time = "0s"
    }
    service {
      name        = "web"
      port        = "80"
      address     = "127.0.0.1"
      tags        = ["live"]
      canary_tags = ["canary"]
      %s
    }
    %s
    %s`, service, more, harness.Shell("exec sleep 1000", fmt.Sprintf("env {\n V = %q\n}", version))))
}

// running returns the names of allocations that have begun, by ID: a, b and so on.
func (f *consulFleet) running(names map[string]string, n int) map[string]string {
	f.T.Helper()
	for _, al := range harness.Await(f.T, f.Server, "duty", "running", n) {
		if names[al.ID] == "" {
			names[al.ID] = string(rune('a' + len(names)))
		}
	}
	return names
}

// TestConsulDuties follows registrations through a canary, its promotion, an update in place that changes provider, services
// and checks, and a stop with a delay.
func TestConsulDuties(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := newConsulFleet(t)
	f.join("one")
	defer f.Purge()
	harness.Run(t, f.Server, dutyJob("1", "", ""))
	names := f.running(map[string]string{}, 1)
	f.has("start", names, "a-group-g-web-80[live][]")

	harness.Run(t, f.Server, dutyJob("2", "", ""))
	f.running(names, 2)
	f.has("canary", names, "a-group-g-web-80[live][]", "b-group-g-web-80[canary][]")
	harness.Succeeds(t, "promote", func() error {
		d, _, err := f.Server.Client.Jobs().LatestDeployment("duty", nil)
		if err == nil {
			_, _, err = f.Server.Client.Deployments().PromoteAll(d.ID, nil)
		}
		return err
	})
	f.has("promotion", names, "b-group-g-web-80[live][]")
	harness.Await(t, f.Server, "duty", "running", 1)

	script := "check {\n name = \"ok\"\n type = \"script\"\n task = \"t\"\n command = \"/bin/true\"\n interval = \"1s\"\n timeout = \"2s\"\n}\n"
	second := "service {\n name = \"more\"\n port = \"81\"\n address = \"127.0.0.1\"\n}\n"
	harness.Run(t, f.Server, dutyJob("2", script, second))
	f.has("a check and a service are added", names, "b-group-g-more-81[][]", "b-group-g-web-80[live][ok=passing]")
	inCatalog := func(n int) {
		t.Helper()
		harness.Within(t, harness.Patience, "native services", func() bool {
			list, _, err := f.Server.Client.Services().Instances("web", nil)
			return err == nil && len(list) == n
		})
	}
	harness.Run(t, f.Server, dutyJob("2", "provider = \"nomad\"\n", ""))
	f.has("another provider", names)
	inCatalog(1)
	harness.Run(t, f.Server, dutyJob("2", "", "shutdown_delay = \"4s\"\n"))
	f.has("back", names, "b-group-g-web-80[live][]")
	inCatalog(0)
	if got := f.running(names, 1); len(got) != 2 {
		t.Errorf("%d allocations, want the one of the canary to stay", len(got))
	}

	harness.Stop(t, f.Server, "duty")
	f.has("stop", names)
	if al := harness.Allocs(t, f.Server, "duty", api.AllocClientStatusRunning); len(al) != 1 {
		t.Errorf("%d running allocations after the removal of the service, want the one that waits for shutdown_delay", len(al))
	}
}

// TestConsulLostNode checks that the services of a lost node stay, beside those of the replacement, until the node is back,
// and that the agent which comes back while Consul is down leaves nothing and registers nothing twice.
func TestConsulLostNode(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := newConsulFleet(t, "server {\n  heartbeat_grace = \"4s\"\n  min_heartbeat_ttl = \"1s\"\n}\n")
	one := f.join("one")
	defer f.Purge()
	harness.Run(t, f.Server, dutyJob("1", "", ""))
	names := f.running(map[string]string{}, 1)
	f.has("start", names, "a-group-g-web-80[live][]")
	f.join("two")
	if err := one.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, f.Server, "duty", "lost", 1)
	f.running(names, 1)
	f.has("the node is lost", names, "a-group-g-web-80[live][]", "b-group-g-web-80[live][]")

	if err := f.consul.Set(testconsul.Mode{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	harness.Restart(t, one)
	harness.Within(t, harness.Patience, "the node stops the lost allocation", func() bool {
		return strings.Contains(harness.FileText(t, filepath.Join(f.Dir, "one", "agent.log")), "services of consul cannot be listed")
	})
	if err := f.consul.Set(testconsul.Mode{}); err != nil {
		t.Fatal(err)
	}
	f.has("the node is back", names, "b-group-g-web-80[live][]")
	if n := len(harness.Allocs(t, f.Server, "duty", api.AllocClientStatusRunning)); n != 1 {
		t.Errorf("%d allocations run, want 1", n)
	}
}

// TestConsulBlockRemoved checks what a restart without the consul block does: the allocation fails with the cause and what to
// do, and its service stays in Consul, because the agent has no connection to it.
func TestConsulBlockRemoved(t *testing.T) {
	harness.NeedsRoot(t)
	t.Parallel()
	f := newConsulFleet(t)
	one := f.join("one")
	defer f.Purge()
	harness.Run(t, f.Server, dutyJob("1", "", ""))
	names := f.running(map[string]string{}, 1)
	f.has("start", names, "a-group-g-web-80[live][]")
	if err := one.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(f.Dir, "one.hcl"), "name = \"one\"\n"+harness.TestDrivers)
	harness.Restart(t, one)
	failed := harness.Await(t, f.Server, "duty", "failed", 1)[0]
	var events []string
	for _, e := range failed.TaskStates["t"].Events {
		events = append(events, e.DisplayMessage)
	}
	if text := strings.Join(events, "\n"); !strings.Contains(text, "add a consul block to the configuration of the client") {
		t.Errorf("events of the allocation:\n%s", text)
	}
	f.has("the block is removed", names, "a-group-g-web-80[live][]")
}

// TestConsulLeader checks that services are registered once if the leader is lost between the placement and the start of the
// task, and stay while the region has no leader.
func TestConsulLeader(t *testing.T) {
	harness.NeedsRoot(t)
	t.Parallel()
	f := newConsulFleet(t)
	f.join("one")
	defer f.Purge()
	registrations := func(n int) {
		t.Helper()
		if got := f.consul.Calls("PUT /v1/agent/service/register"); got != n {
			t.Errorf("%d registrations, want %d", got, n)
		}
	}
	again := func() {
		t.Helper()
		if err := f.Server.Kill(); err != nil {
			t.Fatal(err)
		}
		f.Server = harness.Restart(t, f.Server)
	}
	harness.Run(t, f.Server, dutyJob("1", "", ""))
	again()
	names := f.running(map[string]string{}, 1)
	f.has("the leader is lost at the start", names, "a-group-g-web-80[live][]")
	registrations(1)
	harness.Run(t, f.Server, dutyJob("1", "", "service {\n name = \"more\"\n port = \"81\"\n address = \"127.0.0.1\"\n}\n"))
	again()
	f.has("the leader is lost at an update", names, "a-group-g-more-81[][]", "a-group-g-web-80[live][]")
	f.running(names, 1)
	registrations(2)
	harness.Stop(t, f.Server, "duty")
	again()
	f.has("the leader is lost at a stop", names)
}
