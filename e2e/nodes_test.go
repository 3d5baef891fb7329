package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// quickBeats are heartbeat settings for tests: short, but long enough that a busy machine does not
// cause a missed heartbeat.
const quickBeats = `
server {
  heartbeat_grace        = "10s"
  min_heartbeat_ttl      = "1s"
  failover_heartbeat_ttl = "15s"
}
`

// A job without a feasible node waits, with the reasons, and is placed as soon as there is
// capacity: when another job stops, or a node joins.
func TestBlockedUntilCapacity(t *testing.T) {
	f := newFleet(t, "")
	const room = "client {\n network_interface = \"lo\"\n cpu_total_compute = 1000\n memory_total_mb = 1000\n disk_total_mb = 2000\n}\n"
	first := f.join("first", room)
	defer f.purge()
	for _, c := range []struct{ name, change, to, head, want string }{
		{"memory", "memory = 10", "memory = 600", "", "memory"},
		{"cpu", "cpu    = 10", "cpu = 600", "", "cpu"},
		{"disk", "", "", "ephemeral_disk {\n size = 1200\n}\n", "disk"},
		{"port", "", "", "network {\n port \"p\" {\n static = 28200\n}\n}\n", "reserved port collision"},
	} {
		t.Run(c.name, func(t *testing.T) {
			group := c.head + small
			if c.change != "" {
				group = strings.Replace(group, c.change, c.to, 1)
			}
			n := 1
			if c.name == "port" { // each address has its own port
				n = addresses(t, first)
			}
			group = fmt.Sprintf("count = %d\n", n) + group
			first, _ := run(t, f.srv, job(c.name+"-1", "", group))
			await(t, f.srv, first, "running", n)
			second, eval := run(t, f.srv, job(c.name+"-2", "", group))
			checkBlocked(t, evaluated(t, f.srv, eval), c.want)
			if n := len(allocsOf(t, f.srv, second, "running")); n != 0 {
				t.Fatalf("%d allocations run where there is no room", n)
			}
			if _, _, err := f.srv.Client.Jobs().Deregister(first, false, nil); err != nil {
				t.Fatal(err)
			}
			await(t, f.srv, second, "running", n)
			third, eval := run(t, f.srv, job(c.name+"-3", "", group))
			blocked := evaluated(t, f.srv, eval).BlockedEval
			if _, _, err := f.srv.Client.Jobs().Deregister(third, true, nil); err != nil {
				t.Fatal(err)
			}
			if e := evaluated(t, f.srv, blocked); e.Status != "canceled" {
				within(t, patience, "the blocked evaluation of a purged job is canceled", func() bool {
					return evaluated(t, f.srv, blocked).Status == "canceled"
				})
			}
			if _, _, err := f.srv.Client.Jobs().Deregister(second, true, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("node joins", func(t *testing.T) {
		group := strings.Replace(small, "memory = 10", "memory = 600", 1)
		id, eval := run(t, f.srv, job("grows", "", "count = 2\n"+group))
		checkBlocked(t, evaluated(t, f.srv, eval), "memory")
		await(t, f.srv, id, "running", 1)
		f.join("second", room)
		if got := nodesOf(await(t, f.srv, id, "running", 2)); got["first"] != 1 || got["second"] != 1 {
			t.Errorf("placed on %v, want one on each", got)
		}
	})
	t.Run("system job comes to a node that joins", func(t *testing.T) {
		id, _ := run(t, f.srv, job("everywhere", `type = "system"`, small))
		await(t, f.srv, id, "running", 2)
		f.join("third", room)
		await(t, f.srv, id, "running", 3)
	})
}

// addresses counts the addresses of a node.
func addresses(t *testing.T, a *cluster.Agent) int {
	t.Helper()
	node, _, err := a.Client.Nodes().Info(nodeID(t, a), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, network := range node.NodeResources.Networks {
		if network.Mode == "host" {
			n++
		}
	}
	return n
}

// The node of a killed agent is down, its allocations are lost and replaced. When it returns, stale
// allocations are stopped. A node that is gone for good is purged.
func TestNodeIsLost(t *testing.T) {
	f := newFleet(t, quickBeats)
	const lo = "client {\n network_interface = \"lo\"\n}\n"
	first := f.join("first", lo)
	defer f.purge()
	pidFile := filepath.Join(f.dir, "pid")
	id, _ := run(t, f.srv, job("web", "", shell("echo $$ > "+pidFile+".$NOMAD_ALLOC_ID; sleep 3600")))
	old := await(t, f.srv, id, "running", 1)[0]
	sys, _ := run(t, f.srv, job("sys", `type = "system"`, small))
	sysOld := await(t, f.srv, sys, "running", 1)[0]
	pid := strings.TrimSpace(fileText(t, pidFile+"."+old.ID))

	second := f.join("second", lo)
	await(t, f.srv, sys, "running", 2)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	down := nodeStatus(t, f.srv, old.NodeID, "down")
	if ev := down.Events[len(down.Events)-1]; ev.Subsystem != "Cluster" && ev.Subsystem != "Heartbeat" {
		t.Errorf("the last event of the node is %+v, want one of its silence", ev)
	}
	await(t, f.srv, id, "lost", 1)
	await(t, f.srv, sys, "lost", 1)
	replaced := await(t, f.srv, id, "running", 1)[0]
	if next, _, err := f.srv.Client.Allocations().Info(replaced.ID, nil); err != nil || next.NodeName != "second" || next.PreviousAllocation != old.ID {
		t.Errorf("replaced on %s after %q (%v), want on second after %s", next.NodeName, next.PreviousAllocation, err, old.ID)
	}
	if lost, _, err := f.srv.Client.Allocations().Info(old.ID, nil); err != nil || lost.DesiredStatus != "stop" || lost.NextAllocation != replaced.ID {
		t.Errorf("the lost allocation: %v, wanted %s, next %s", err, lost.DesiredStatus, lost.NextAllocation)
	}
	if _, err := os.Stat("/proc/" + pid); err != nil {
		t.Errorf("process %s should run on without its agent: %v", pid, err)
	}

	// The node is back: ready, without stale allocations.
	first = again(t, first)
	nodeStatus(t, f.srv, old.NodeID, "ready")
	waitGone(t, []string{pid})
	back := await(t, f.srv, sys, "running", 2)
	for _, al := range back {
		if al.ID == sysOld.ID {
			t.Errorf("allocation %s runs that was lost", al.ID)
		}
	}
	if got := await(t, f.srv, id, "running", 1)[0]; got.ID != replaced.ID {
		t.Errorf("job web moved to %s", got.ID)
	}

	// A node that is not restarted is down after its TTL, and can be purged.
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	nodeStatus(t, f.srv, old.NodeID, "down")
	if _, _, err := f.srv.Client.Nodes().Purge(old.NodeID, nil); err != nil {
		t.Fatalf("Purge() = %v", err)
	}
	if nodes, _, err := f.srv.Client.Nodes().List(nil); err != nil || len(nodes) != 1 || nodes[0].ID != nodeID(t, second) {
		t.Errorf("nodes after the purge: %v, %v", nodes, err)
	}
	if _, _, err := f.srv.Client.Nodes().Info(old.NodeID, nil); statusCode(err) != 404 {
		t.Errorf("Info(purged node) = %v, want 404", err)
	}
	// It may return under its ID.
	again(t, first)
	nodeStatus(t, f.srv, old.NodeID, "ready")
	await(t, f.srv, sys, "running", 2)
}

// The server ends, by SIGTERM and by SIGKILL, and restarts: jobs, keys, nodes and tokens are
// unchanged, and tasks continue.
func TestServerRestarts(t *testing.T) {
	f := newFleet(t, quickBeats)
	f.join("only", "client {\n network_interface = \"lo\"\n}\n")
	defer f.purge()
	id, _ := run(t, f.srv, job("web", "", shell("cp $NOMAD_SECRETS_DIR/nomad_token $NOMAD_ALLOC_DIR/data/; echo $$; sleep 3600", "identity {\n file = true\n}")))
	al := await(t, f.srv, id, "running", 1)[0]
	pid := strings.TrimSpace(logOf(t, f.srv, al))
	keys := keysOf(t, f.srv)
	for _, end := range []struct {
		name string
		how  func(*cluster.Agent) error
	}{{"term", (*cluster.Agent).Stop}, {"kill", (*cluster.Agent).Kill}, {"kill at once", (*cluster.Agent).Kill}} {
		t.Run(end.name, func(t *testing.T) {
			last, _ := run(t, f.srv, job("last-"+strings.ReplaceAll(end.name, " ", "-"), "", small))
			if err := end.how(f.srv); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			f.srv = start(f.t, f.srv.Options)
			t.Logf("back after %s", time.Since(at))
			if got := keysOf(t, f.srv); got != keys {
				t.Errorf("keys are %s, were %s", got, keys)
			}
			await(t, f.srv, last, "running", 1)
			now := await(t, f.srv, id, "running", 1)[0]
			if now.ID != al.ID || now.TaskStates["t"].Restarts != 0 {
				t.Errorf("allocation %s with %d restarts, was %s", now.ID, now.TaskStates["t"].Restarts, al.ID)
			}
			if _, err := os.Stat("/proc/" + pid); err != nil {
				t.Errorf("the task has ended: %v", err)
			}
			nodeStatus(t, f.srv, al.NodeID, "ready")
		})
	}
}
