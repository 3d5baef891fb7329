package nodes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A job without a feasible node waits, with the reasons, and is placed as soon as there is
// capacity: when another job stops, or a node joins.
func TestBlockedUntilCapacity(t *testing.T) {
	f := harness.NewFleet(t, "")
	const room = "client {\n network_interface = \"lo\"\n cpu_total_compute = 1000\n memory_total_mb = 1000\n disk_total_mb = 2000\n}\n"
	first := f.Join("first", room)
	defer f.Purge()
	for _, c := range []struct{ name, change, to, head, want string }{
		{"memory", "memory = 10", "memory = 600", "", "memory"},
		{"cpu", "cpu    = 10", "cpu = 600", "", "cpu"},
		{"disk", "", "", "ephemeral_disk {\n size = 1200\n}\n", "disk"},
		{"port", "", "", "network {\n port \"p\" {\n static = 28200\n}\n}\n", "reserved port collision"},
	} {
		t.Run(c.name, func(t *testing.T) {
			group := c.head + harness.SmallTask
			if c.change != "" {
				group = strings.Replace(group, c.change, c.to, 1)
			}
			n := 1
			if c.name == "port" { // each address has its own port
				n = addresses(t, first)
			}
			group = fmt.Sprintf("count = %d\n", n) + group
			first, _ := harness.Run(t, f.Server, harness.Job(c.name+"-1", "", group))
			harness.Await(t, f.Server, first, "running", n)
			second, eval := harness.Run(t, f.Server, harness.Job(c.name+"-2", "", group))
			harness.CheckBlocked(t, harness.Evaluated(t, f.Server, eval), c.want)
			if n := len(harness.Allocs(t, f.Server, second, "running")); n != 0 {
				t.Fatalf("%d allocations run where there is no room", n)
			}
			if _, _, err := f.Server.Client.Jobs().Deregister(first, false, nil); err != nil {
				t.Fatal(err)
			}
			harness.Await(t, f.Server, second, "running", n)
			third, eval := harness.Run(t, f.Server, harness.Job(c.name+"-3", "", group))
			blocked := harness.Evaluated(t, f.Server, eval).BlockedEval
			if _, _, err := f.Server.Client.Jobs().Deregister(third, true, nil); err != nil {
				t.Fatal(err)
			}
			if e := harness.Evaluated(t, f.Server, blocked); e.Status != "canceled" {
				harness.Within(t, harness.Patience, "the blocked evaluation of a purged job is canceled", func() bool {
					return harness.Evaluated(t, f.Server, blocked).Status == "canceled"
				})
			}
			if _, _, err := f.Server.Client.Jobs().Deregister(second, true, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("node joins", func(t *testing.T) {
		group := strings.Replace(harness.SmallTask, "memory = 10", "memory = 600", 1)
		id, eval := harness.Run(t, f.Server, harness.Job("grows", "", "count = 2\n"+group))
		harness.CheckBlocked(t, harness.Evaluated(t, f.Server, eval), "memory")
		harness.Await(t, f.Server, id, "running", 1)
		f.Join("second", room)
		if got := harness.CountByNode(harness.Await(t, f.Server, id, "running", 2)); got["first"] != 1 || got["second"] != 1 {
			t.Errorf("placed on %v, want one on each", got)
		}
	})
	t.Run("system job comes to a node that joins", func(t *testing.T) {
		id, _ := harness.Run(t, f.Server, harness.Job("everywhere", `type = "system"`, harness.SmallTask))
		harness.Await(t, f.Server, id, "running", 2)
		f.Join("third", room)
		harness.Await(t, f.Server, id, "running", 3)
	})
}

// addresses counts the addresses of a node.
func addresses(t *testing.T, a *cluster.Agent) int {
	t.Helper()
	node, _, err := a.Client.Nodes().Info(harness.NodeID(t, a), nil)
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
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	const lo = "client {\n network_interface = \"lo\"\n}\n"
	first := f.Join("first", lo)
	defer f.Purge()
	pidFile := filepath.Join(f.Dir, "pid")
	id, _ := harness.Run(t, f.Server, harness.Job("web", "", harness.Shell("echo $$ > "+pidFile+".$NOMAD_ALLOC_ID; sleep 3600")))
	old := harness.Await(t, f.Server, id, "running", 1)[0]
	sys, _ := harness.Run(t, f.Server, harness.Job("sys", `type = "system"`, harness.SmallTask))
	sysOld := harness.Await(t, f.Server, sys, "running", 1)[0]
	pid := strings.TrimSpace(harness.FileText(t, pidFile+"."+old.ID))

	second := f.Join("second", lo)
	harness.Await(t, f.Server, sys, "running", 2)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	down := harness.WaitNodeStatus(t, f.Server, old.NodeID, "down")
	if ev := down.Events[len(down.Events)-1]; ev.Subsystem != "Cluster" && ev.Subsystem != "Heartbeat" {
		t.Errorf("the last event of the node is %+v, want one of its silence", ev)
	}
	harness.Await(t, f.Server, id, "lost", 1)
	harness.Await(t, f.Server, sys, "lost", 1)
	replaced := harness.Await(t, f.Server, id, "running", 1)[0]
	if next, _, err := f.Server.Client.Allocations().Info(replaced.ID, nil); err != nil || next.NodeName != "second" ||
		next.PreviousAllocation != old.ID {
		t.Errorf("replaced on %s after %q (%v), want on second after %s", next.NodeName, next.PreviousAllocation, err, old.ID)
	}
	if lost, _, err := f.Server.Client.Allocations().Info(old.ID, nil); err != nil || lost.DesiredStatus != "stop" ||
		lost.NextAllocation != replaced.ID {
		t.Errorf("the lost allocation: %v, wanted %s, next %s", err, lost.DesiredStatus, lost.NextAllocation)
	}
	if _, err := os.Stat("/proc/" + pid); err != nil {
		t.Errorf("process %s should run on without its agent: %v", pid, err)
	}

	// The node is back: ready, without stale allocations.
	first = harness.Restart(t, first)
	harness.WaitNodeStatus(t, f.Server, old.NodeID, "ready")
	harness.WaitGone(t, []string{pid})
	back := harness.Await(t, f.Server, sys, "running", 2)
	for _, al := range back {
		if al.ID == sysOld.ID {
			t.Errorf("allocation %s runs that was lost", al.ID)
		}
	}
	if got := harness.Await(t, f.Server, id, "running", 1)[0]; got.ID != replaced.ID {
		t.Errorf("job web moved to %s", got.ID)
	}

	// A node that is not restarted is down after its TTL, and can be purged.
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.WaitNodeStatus(t, f.Server, old.NodeID, "down")
	if _, _, err := f.Server.Client.Nodes().Purge(old.NodeID, nil); err != nil {
		t.Fatalf("Purge() = %v", err)
	}
	if nodes, _, err := f.Server.Client.Nodes().List(nil); err != nil || len(nodes) != 1 || nodes[0].ID != harness.NodeID(t, second) {
		t.Errorf("nodes after the purge: %v, %v", nodes, err)
	}
	if _, _, err := f.Server.Client.Nodes().Info(old.NodeID, nil); harness.StatusCode(err) != 404 {
		t.Errorf("Info(purged node) = %v, want 404", err)
	}
	// It may return under its ID.
	harness.Restart(t, first)
	harness.WaitNodeStatus(t, f.Server, old.NodeID, "ready")
	harness.Await(t, f.Server, sys, "running", 2)
}

// The server ends, by SIGTERM and by SIGKILL, and restarts: jobs, keys, nodes and tokens are
// unchanged, and tasks continue.
func TestServerRestarts(t *testing.T) {
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	f.Join("only", "client {\n network_interface = \"lo\"\n}\n")
	defer f.Purge()
	id, _ := harness.Run(t, f.Server, harness.Job("web", "",
		harness.Shell("cp $NOMAD_SECRETS_DIR/nomad_token $NOMAD_ALLOC_DIR/data/; echo $$; sleep 3600", "identity {\n file = true\n}")))
	al := harness.Await(t, f.Server, id, "running", 1)[0]
	pid := strings.TrimSpace(harness.WaitLog(t, f.Server, al))
	keys := keysOf(t, f.Server)
	for _, end := range []struct {
		name string
		how  func(*cluster.Agent) error
	}{{"term", (*cluster.Agent).Stop}, {"kill", (*cluster.Agent).Kill}, {"kill at once", (*cluster.Agent).Kill}} {
		t.Run(end.name, func(t *testing.T) {
			last, _ := harness.Run(t, f.Server, harness.Job("last-"+strings.ReplaceAll(end.name, " ", "-"), "", harness.SmallTask))
			if err := end.how(f.Server); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			f.Server = harness.Start(f.T, f.Server.Options)
			t.Logf("back after %s", time.Since(at))
			if got := keysOf(t, f.Server); got != keys {
				t.Errorf("keys are %s, were %s", got, keys)
			}
			harness.Await(t, f.Server, last, "running", 1)
			now := harness.Await(t, f.Server, id, "running", 1)[0]
			if now.ID != al.ID || now.TaskStates["t"].Restarts != 0 {
				t.Errorf("allocation %s with %d restarts, was %s", now.ID, now.TaskStates["t"].Restarts, al.ID)
			}
			if _, err := os.Stat("/proc/" + pid); err != nil {
				t.Errorf("the task has ended: %v", err)
			}
			harness.WaitNodeStatus(t, f.Server, al.NodeID, "ready")
		})
	}
}
