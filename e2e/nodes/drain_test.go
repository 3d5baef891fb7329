package nodes_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// movable is a service group whose replacements are healthy at once.
const movable = "migrate {\n max_parallel = 1\n min_healthy_time = \"100ms\"\n}\n" + harness.SmallTask

// TestDrain drains a node with a service, a batch and a system job, and follows the drain with the command.
func TestDrain(t *testing.T) {
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	first := f.Join("first", harness.Loopback)
	defer f.Purge()
	web, _ := harness.Run(t, f.Server, harness.Job("web", "", "count = 3\n"+movable))
	harness.Await(t, f.Server, web, "running", 3)
	batch, _ := harness.Run(t, f.Server, harness.Job("batch", `type = "batch"`, strings.Replace(harness.SmallTask, `"1h"`, `"2s"`, 1)))
	sys, _ := harness.Run(t, f.Server, harness.Job("sys", `type = "system"`, harness.SmallTask))
	harness.Await(t, f.Server, sys, "running", 1)
	f.Join("second", harness.Loopback)
	harness.Await(t, f.Server, sys, "running", 2)

	id := harness.NodeID(t, first)
	out, err := harness.Command(t, f.Server, "node", "drain", "-enable", "-yes", "-m", "new disk", "-meta", "ticket=7", id)
	if err != nil {
		t.Fatalf("node drain: %v\n%s", err, out)
	}
	for _, want := range []string{"drain strategy set", "marked for migration", "status running -> complete", "Drain complete for node",
		"have stopped"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if got := harness.CountByNode(harness.Await(t, f.Server, web, "running", 3)); got["second"] != 3 {
		t.Errorf("web runs on %v", got)
	}
	if n := len(harness.Allocs(t, f.Server, batch, "complete")); n != 1 {
		t.Errorf("%d allocations of the batch job are complete, want 1: it may finish", n)
	}
	if got := harness.CountByNode(harness.Await(t, f.Server, sys, "running", 1)); got["second"] != 1 {
		t.Errorf("sys runs on %v", got)
	}
	n := drainedNode(t, f, id)
	if n.LastDrain.Meta["message"] != "new disk" || n.LastDrain.Meta["ticket"] != "7" {
		t.Errorf("last drain: %+v", n.LastDrain)
	}

	// Back in service: the system job comes back.
	if out, err := harness.Command(t, f.Server, "node", "eligibility", "-enable", id); err != nil {
		t.Fatalf("node eligibility: %v\n%s", err, out)
	}
	harness.Await(t, f.Server, sys, "running", 2)
}

// drainedNode waits until a drain is complete and returns the node.
func drainedNode(t *testing.T, f *harness.Fleet, id string) *api.Node {
	t.Helper()
	var n *api.Node
	harness.Within(t, harness.Patience, "the drain is complete", func() bool {
		var err error
		n, _, err = f.Server.Client.Nodes().Info(id, nil)
		return err == nil && n.DrainStrategy == nil && n.LastDrain != nil && n.LastDrain.Status == api.DrainStatusComplete
	})
	if n.SchedulingEligibility != api.NodeSchedulingIneligible {
		t.Errorf("the drained node is %s", n.SchedulingEligibility)
	}
	return n
}

// deployed waits until all allocations of a job are healthy.
func deployed(t *testing.T, a *cluster.Agent, job string) {
	t.Helper()
	harness.Within(t, harness.Patience, "the deployment of "+job+" is successful", func() bool {
		d, _, err := a.Client.Jobs().LatestDeployment(job, nil)
		return err == nil && d != nil && d.Status == "successful"
	})
}

// TestDrainLimits drains nodes with a deadline, by force, and cancels a drain.
func TestDrainLimits(t *testing.T) {
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	first := f.Join("first", harness.Loopback)
	defer f.Purge()
	stays := strings.Replace(movable, "max_parallel = 1", "max_parallel = 0", 1)
	web, _ := harness.Run(t, f.Server, harness.Job("web", "", "count = 2\n"+stays))
	harness.Await(t, f.Server, web, "running", 2)
	batch, _ := harness.Run(t, f.Server, harness.Job("batch", `type = "batch"`, harness.SmallTask))
	harness.Await(t, f.Server, batch, "running", 1)
	second := f.Join("second", harness.Loopback)
	drain := func(node string, flags ...string) string {
		t.Helper()
		out, err := harness.Command(t, f.Server, append(append([]string{"node", "drain", "-yes"}, flags...), node)...)
		if err != nil {
			t.Fatalf("node drain %q: %v\n%s", flags, err, out)
		}
		return out
	}
	one, two := harness.NodeID(t, first), harness.NodeID(t, second)

	drain(one, "-enable", "-detach", "-no-deadline")
	drain(one, "-disable", "-keep-ineligible")
	n, _, err := f.Server.Client.Nodes().Info(one, nil)
	if err != nil || n.DrainStrategy != nil || n.LastDrain.Status != api.DrainStatusCanceled ||
		n.SchedulingEligibility != api.NodeSchedulingIneligible {
		t.Fatalf("after the cancellation: %v, %+v", err, n)
	}
	if got := harness.CountByNode(harness.Await(t, f.Server, web, "running", 2)); got["first"] != 2 {
		t.Errorf("web runs on %v", got)
	}

	begun := time.Now()
	drain(one, "-enable", "-deadline", "2s")
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("the drain ended %v after its start, before the deadline", took)
	}
	if got := harness.CountByNode(harness.Await(t, f.Server, web, "running", 2)); got["second"] != 2 {
		t.Errorf("web runs on %v", got)
	}
	if got := harness.CountByNode(harness.Await(t, f.Server, batch, "running", 1)); got["second"] != 1 { // it begins again there
		t.Errorf("batch runs on %v", got)
	}
	last := drainedNode(t, f, one).Events
	if e := last[len(last)-1]; e.Message != "Node drain complete" || e.Details["deadline_reached"] != "true" {
		t.Errorf("last event: %+v", e)
	}

	drain(one, "-disable") // not draining: makes it eligible
	drain(two, "-enable", "-force")
	if got := harness.CountByNode(harness.Await(t, f.Server, web, "running", 2)); got["first"] != 2 {
		t.Errorf("web runs on %v", got)
	}
	drainedNode(t, f, two)
}

// TestDrainOnShutdown stops an agent that drains its node first.
func TestDrainOnShutdown(t *testing.T) {
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	first := f.Join("first", fmt.Sprintf("leave_on_terminate = true\nclient {\n network_interface = %q\n drain_on_shutdown {\n"+
		" deadline = \"30s\"\n ignore_system_jobs = true\n }\n}\n", "lo"))
	defer f.Purge()
	web, _ := harness.Run(t, f.Server, harness.Job("web", "", "count = 2\n"+movable))
	harness.Await(t, f.Server, web, "running", 2)
	sys, _ := harness.Run(t, f.Server, harness.Job("sys", `type = "system"`, harness.SmallTask))
	harness.Await(t, f.Server, sys, "running", 1)
	deployed(t, f.Server, web)
	f.Join("second", harness.Loopback)
	id := harness.NodeID(t, first)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if code := first.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	n, _, err := f.Server.Client.Nodes().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l := n.LastDrain; l == nil || l.Status != api.DrainStatusComplete || l.AccessorID != "client:"+id ||
		l.Meta["message"] != "shutting down" {
		t.Errorf("last drain: %+v", l)
	}
	if got := harness.CountByNode(harness.Await(t, f.Server, web, "running", 2)); got["second"] != 2 {
		t.Errorf("web runs on %v", got)
	}
	if n := len(harness.Allocs(t, f.Server, web, "complete")); n != 2 {
		t.Errorf("%d allocations of web are complete, want 2: they stopped before the agent did", n)
	}
	harness.Restart(t, first)
	if n := drainedNode(t, f, id); n.DrainStrategy != nil {
		t.Errorf("the node drains after its restart: %+v", n.DrainStrategy)
	}
}

// TestDrainOverLeaders changes the leader in the middle of a drain, once in order and once by a kill. The drain goes
// on, and never more than max_parallel allocations are missing.
func TestDrainOverLeaders(t *testing.T) {
	const count = 6
	s := harness.StartServers(t)
	clients := []*cluster.Agent{startClient(s, "first"), startClient(s, "second")}
	defer harness.PurgeAll(t, clients[1])
	enable := func(i int, on bool) {
		t.Helper()
		harness.Acknowledged(t, "set the eligibility", func() error {
			_, err := s.All[0].Client.Nodes().ToggleEligibility(harness.NodeID(t, clients[i]), on, nil)
			return err
		})
	}
	enable(1, false)
	web, _ := harness.Run(t, s.All[0], harness.Job("web", "",
		fmt.Sprintf("count = %d\n", count)+strings.Replace(movable, "100ms", "500ms", 1)))
	harness.Await(t, s.All[0], web, "running", count)
	deployed(t, s.All[0], web)
	enable(1, true)

	id, lead := harness.NodeID(t, clients[0]), s.Agreed()
	harness.Acknowledged(t, "start the drain", func() error {
		_, err := s.All[lead].Client.Nodes().UpdateDrain(id, &api.DrainSpec{Deadline: 5 * time.Minute}, false, nil)
		return err
	})
	least := count
	moved := func(ask *cluster.Agent) int {
		allocs, _, err := ask.Client.Jobs().Allocations(web, true, &api.QueryOptions{AllowStale: true})
		if err != nil {
			return 0 // no leader
		}
		running, gone := 0, 0
		for _, a := range allocs {
			switch {
			case a.DesiredStatus == "run" && a.ClientStatus == "running":
				running++
			case a.NodeID == id && a.DesiredStatus == "stop":
				gone++
			}
		}
		least = min(least, running)
		return gone
	}
	until := func(n int) {
		t.Helper()
		harness.Within(t, harness.Patience, fmt.Sprintf("%d allocations have left", n), func() bool { return moved(s.All[(lead+2)%3]) >= n })
	}
	until(1)
	transferLead(s, (lead+1)%3)
	until(3)
	if err := s.All[(lead+1)%3].Kill(); err != nil {
		t.Fatal(err)
	}
	until(count)
	s.All[(lead+1)%3] = harness.Restart(t, s.All[(lead+1)%3])
	var n *api.Node
	harness.Within(t, harness.Patience, "the drain is complete", func() bool {
		moved(s.All[(lead+2)%3])
		var err error
		n, _, err = s.All[(lead+2)%3].Client.Nodes().Info(id, nil)
		return err == nil && n.DrainStrategy == nil
	})
	if n.LastDrain.Status != api.DrainStatusComplete || n.SchedulingEligibility != api.NodeSchedulingIneligible {
		t.Errorf("last drain %+v, the node is %s", n.LastDrain, n.SchedulingEligibility)
	}
	if least < count-1 {
		t.Errorf("only %d of %d allocations ran at one time, want %d", least, count, count-1)
	}
	harness.Await(t, s.All[(lead+2)%3], web, "running", count)
}

// client starts a client of the servers.
func startClient(s *harness.Servers, name string) *cluster.Agent {
	s.T.Helper()
	dir := filepath.Join(harness.TempDir(s.T), name)
	harness.Mkdir(s.T, dir)
	cfg := filepath.Join(dir, "client.hcl")
	harness.WriteFile(s.T, cfg, fmt.Sprintf("name = %q\n", name)+harness.TestDrivers+harness.Loopback)
	args := []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}
	for _, a := range s.All {
		args = append(args, fmt.Sprintf("-servers=127.0.0.1:%d", a.RPC))
	}
	return harness.Start(s.T, cluster.Options{Dir: dir, Args: args})
}
