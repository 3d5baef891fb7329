package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// movable is a service group whose replacements are healthy at once.
const movable = "migrate {\n max_parallel = 1\n min_healthy_time = \"100ms\"\n}\n" + small

// loopback lets several clients run on one machine.
const loopback = "client {\n network_interface = \"lo\"\n}\n"

// TestDrain drains a node with a service, a batch and a system job, and follows the drain with the command.
func TestDrain(t *testing.T) {
	f := newFleet(t, quickBeats)
	first := f.join("first", loopback)
	defer f.purge()
	web, _ := run(t, f.srv, job("web", "", "count = 3\n"+movable))
	await(t, f.srv, web, "running", 3)
	batch, _ := run(t, f.srv, job("batch", `type = "batch"`, strings.Replace(small, `"1h"`, `"2s"`, 1)))
	sys, _ := run(t, f.srv, job("sys", `type = "system"`, small))
	await(t, f.srv, sys, "running", 1)
	f.join("second", loopback)
	await(t, f.srv, sys, "running", 2)

	id := nodeID(t, first)
	out, err := nomadCommand(t, f.srv, "node", "drain", "-enable", "-yes", "-m", "new disk", "-meta", "ticket=7", id)
	if err != nil {
		t.Fatalf("node drain: %v\n%s", err, out)
	}
	for _, want := range []string{"drain strategy set", "marked for migration", "status running -> complete", "Drain complete for node", "have stopped"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if got := nodesOf(await(t, f.srv, web, "running", 3)); got["second"] != 3 {
		t.Errorf("web runs on %v", got)
	}
	if n := len(allocsOf(t, f.srv, batch, "complete")); n != 1 {
		t.Errorf("%d allocations of the batch job are complete, want 1: it may finish", n)
	}
	if got := nodesOf(await(t, f.srv, sys, "running", 1)); got["second"] != 1 {
		t.Errorf("sys runs on %v", got)
	}
	n := drainedNode(t, f, id)
	if n.LastDrain.Meta["message"] != "new disk" || n.LastDrain.Meta["ticket"] != "7" {
		t.Errorf("last drain: %+v", n.LastDrain)
	}

	// Back in service: the system job comes back.
	if out, err := nomadCommand(t, f.srv, "node", "eligibility", "-enable", id); err != nil {
		t.Fatalf("node eligibility: %v\n%s", err, out)
	}
	await(t, f.srv, sys, "running", 2)
}

// drainedNode waits until a drain is complete and returns the node.
func drainedNode(t *testing.T, f *fleet, id string) *api.Node {
	t.Helper()
	var n *api.Node
	within(t, patience, "the drain is complete", func() bool {
		var err error
		n, _, err = f.srv.Client.Nodes().Info(id, nil)
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
	within(t, patience, "the deployment of "+job+" is successful", func() bool {
		d, _, err := a.Client.Jobs().LatestDeployment(job, nil)
		return err == nil && d != nil && d.Status == "successful"
	})
}

// TestDrainLimits drains nodes with a deadline, by force, and cancels a drain.
func TestDrainLimits(t *testing.T) {
	f := newFleet(t, quickBeats)
	first := f.join("first", loopback)
	defer f.purge()
	stays := strings.Replace(movable, "max_parallel = 1", "max_parallel = 0", 1)
	web, _ := run(t, f.srv, job("web", "", "count = 2\n"+stays))
	await(t, f.srv, web, "running", 2)
	batch, _ := run(t, f.srv, job("batch", `type = "batch"`, small))
	await(t, f.srv, batch, "running", 1)
	second := f.join("second", loopback)
	drain := func(node string, flags ...string) string {
		t.Helper()
		out, err := nomadCommand(t, f.srv, append(append([]string{"node", "drain", "-yes"}, flags...), node)...)
		if err != nil {
			t.Fatalf("node drain %q: %v\n%s", flags, err, out)
		}
		return out
	}
	one, two := nodeID(t, first), nodeID(t, second)

	drain(one, "-enable", "-detach", "-no-deadline")
	drain(one, "-disable", "-keep-ineligible")
	n, _, err := f.srv.Client.Nodes().Info(one, nil)
	if err != nil || n.DrainStrategy != nil || n.LastDrain.Status != api.DrainStatusCanceled || n.SchedulingEligibility != api.NodeSchedulingIneligible {
		t.Fatalf("after the cancellation: %v, %+v", err, n)
	}
	if got := nodesOf(await(t, f.srv, web, "running", 2)); got["first"] != 2 {
		t.Errorf("web runs on %v", got)
	}

	begun := time.Now()
	drain(one, "-enable", "-deadline", "2s")
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("the drain ended %v after its start, before the deadline", took)
	}
	if got := nodesOf(await(t, f.srv, web, "running", 2)); got["second"] != 2 {
		t.Errorf("web runs on %v", got)
	}
	if got := nodesOf(await(t, f.srv, batch, "running", 1)); got["second"] != 1 { // it begins again there
		t.Errorf("batch runs on %v", got)
	}
	last := drainedNode(t, f, one).Events
	if e := last[len(last)-1]; e.Message != "Node drain complete" || e.Details["deadline_reached"] != "true" {
		t.Errorf("last event: %+v", e)
	}

	drain(one, "-disable") // not draining: makes it eligible
	drain(two, "-enable", "-force")
	if got := nodesOf(await(t, f.srv, web, "running", 2)); got["first"] != 2 {
		t.Errorf("web runs on %v", got)
	}
	drainedNode(t, f, two)
}

// TestDrainOnShutdown stops an agent that drains its node first.
func TestDrainOnShutdown(t *testing.T) {
	f := newFleet(t, quickBeats)
	first := f.join("first", fmt.Sprintf("leave_on_terminate = true\nclient {\n network_interface = %q\n drain_on_shutdown {\n deadline = \"30s\"\n ignore_system_jobs = true\n }\n}\n", "lo"))
	defer f.purge()
	web, _ := run(t, f.srv, job("web", "", "count = 2\n"+movable))
	await(t, f.srv, web, "running", 2)
	sys, _ := run(t, f.srv, job("sys", `type = "system"`, small))
	await(t, f.srv, sys, "running", 1)
	deployed(t, f.srv, web)
	f.join("second", loopback)
	id := nodeID(t, first)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if code := first.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	n, _, err := f.srv.Client.Nodes().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l := n.LastDrain; l == nil || l.Status != api.DrainStatusComplete || l.AccessorID != "client:"+id || l.Meta["message"] != "shutting down" {
		t.Errorf("last drain: %+v", l)
	}
	if got := nodesOf(await(t, f.srv, web, "running", 2)); got["second"] != 2 {
		t.Errorf("web runs on %v", got)
	}
	if n := len(allocsOf(t, f.srv, web, "complete")); n != 2 {
		t.Errorf("%d allocations of web are complete, want 2: they stopped before the agent did", n)
	}
	again(t, first)
	if n := drainedNode(t, f, id); n.DrainStrategy != nil {
		t.Errorf("the node drains after its restart: %+v", n.DrainStrategy)
	}
}

// TestDrainOverLeaders changes the leader in the middle of a drain, once in order and once by a kill. The drain goes
// on, and never more than max_parallel allocations are missing.
func TestDrainOverLeaders(t *testing.T) {
	const count = 6
	s := startServers(t)
	clients := []*cluster.Agent{s.client("first"), s.client("second")}
	defer purgeAll(t, clients[1])
	enable := func(i int, on bool) {
		t.Helper()
		acked(t, "set the eligibility", func() error {
			_, err := s.all[0].Client.Nodes().ToggleEligibility(nodeID(t, clients[i]), on, nil)
			return err
		})
	}
	enable(1, false)
	web, _ := run(t, s.all[0], job("web", "", fmt.Sprintf("count = %d\n", count)+strings.Replace(movable, "100ms", "500ms", 1)))
	await(t, s.all[0], web, "running", count)
	deployed(t, s.all[0], web)
	enable(1, true)

	id, lead := nodeID(t, clients[0]), s.agreed()
	acked(t, "start the drain", func() error {
		_, err := s.all[lead].Client.Nodes().UpdateDrain(id, &api.DrainSpec{Deadline: 5 * time.Minute}, false, nil)
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
		within(t, patience, fmt.Sprintf("%d allocations have left", n), func() bool { return moved(s.all[(lead+2)%3]) >= n })
	}
	until(1)
	s.lead((lead + 1) % 3)
	until(3)
	if err := s.all[(lead+1)%3].Kill(); err != nil {
		t.Fatal(err)
	}
	until(count)
	s.all[(lead+1)%3] = again(t, s.all[(lead+1)%3])
	var n *api.Node
	within(t, patience, "the drain is complete", func() bool {
		moved(s.all[(lead+2)%3])
		var err error
		n, _, err = s.all[(lead+2)%3].Client.Nodes().Info(id, nil)
		return err == nil && n.DrainStrategy == nil
	})
	if n.LastDrain.Status != api.DrainStatusComplete || n.SchedulingEligibility != api.NodeSchedulingIneligible {
		t.Errorf("last drain %+v, the node is %s", n.LastDrain, n.SchedulingEligibility)
	}
	if least < count-1 {
		t.Errorf("only %d of %d allocations ran at one time, want %d", least, count, count-1)
	}
	await(t, s.all[(lead+2)%3], web, "running", count)
}

// client starts a client of the servers.
func (s *servers) client(name string) *cluster.Agent {
	s.t.Helper()
	dir := filepath.Join(tempDir(s.t), name)
	mkdir(s.t, dir)
	cfg := filepath.Join(dir, "client.hcl")
	write(s.t, cfg, fmt.Sprintf("name = %q\n", name)+testDrivers+loopback)
	args := []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}
	for _, a := range s.all {
		args = append(args, fmt.Sprintf("-servers=127.0.0.1:%d", a.RPC))
	}
	return start(s.t, cluster.Options{Dir: dir, Args: args})
}
