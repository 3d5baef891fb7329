package crash_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// sendSignal sends a signal to the process of an agent.
func sendSignal(t *testing.T, a *cluster.Agent, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(a.Pid(), sig); err != nil {
		t.Fatal(err)
	}
}

// TestDisconnect stops the process of a client, so that it misses its heartbeats, and lets it continue.
func TestDisconnect(t *testing.T) {
	for _, c := range []struct{ reconcile, keeps string }{{"keep_original", "first"}, {"keep_replacement", "second"}} {
		t.Run(c.reconcile, func(t *testing.T) {
			f := harness.NewFleet(t, harness.QuickHeartbeats)
			first := f.Join("first", harness.Loopback)
			defer f.Purge()
			web, _ := harness.Run(t, f.Server, harness.Job("web", "",
				fmt.Sprintf("disconnect {\n lost_after = \"1h\"\n reconcile = %q\n}\nreschedule {\n delay = \"5s\"\n delay_function = \"constant\"\n unlimited = true\n}\n", c.reconcile)+harness.SmallTask))
			old := harness.Await(t, f.Server, web, "running", 1)[0]
			f.Join("second", harness.Loopback)
			sendSignal(t, first, syscall.SIGSTOP)
			defer sendSignal(t, first, syscall.SIGCONT)
			harness.WaitNodeStatus(t, f.Server, old.NodeID, "disconnected")
			if unknown := harness.Await(t, f.Server, web, "unknown", 1)[0]; unknown.ID != old.ID || unknown.DesiredStatus != "run" {
				t.Errorf("unknown allocation: %+v", unknown)
			}
			harness.Await(t, f.Server, web, "running", 1)
			sendSignal(t, first, syscall.SIGCONT)
			harness.WaitNodeStatus(t, f.Server, old.NodeID, "ready")
			harness.Within(t, harness.Patience, "one allocation is kept", func() bool {
				allocs := harness.Allocs(t, f.Server, web, "running")
				return len(allocs) == 1 && allocs[0].NodeName == c.keeps && allocs[0].DesiredStatus == "run"
			})
		})
	}
}

// TestStopOnClientAfter stops a server: the client stops its allocation by itself.
func TestStopOnClientAfter(t *testing.T) {
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	first := f.Join("first", harness.Loopback)
	web, _ := harness.Run(t, f.Server, harness.Job("web", "", "disconnect {\n stop_on_client_after = \"3s\"\n}\n"+harness.SmallTask))
	old := harness.Await(t, f.Server, web, "running", 1)[0]
	sendSignal(t, f.Server, syscall.SIGSTOP)
	begun := time.Now()
	harness.Within(t, harness.Patience, "the client has removed the allocation", func() bool {
		_, err := first.Client.Allocations().Stats(&api.Allocation{ID: old.ID, NodeID: old.NodeID}, nil)
		return err != nil
	})
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("it stopped after %v", took)
	}
	sendSignal(t, f.Server, syscall.SIGCONT)
	f.Purge()
}
