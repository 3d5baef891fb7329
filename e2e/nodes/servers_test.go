package nodes_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

const (
	serverKills = 3               // leaders that are killed, one after the other
	writesEach  = 10              // acknowledged writes before each kill
	nextWrite   = 2 * time.Second // maximum time to the next write, in at least one of the kills
)

// Leaders are killed one after the other, and return with their data: writes continue, no
// acknowledged one is lost, and the tasks of a client continue.
func TestKilledLeaders_NoLoss(t *testing.T) {
	s := harness.StartServers(t)
	dir := filepath.Join(harness.TempDir(t), "client")
	cfg := filepath.Join(harness.TempDir(t), "raw.hcl")
	harness.WriteFile(t, cfg, "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	cl := harness.StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg,
			fmt.Sprintf("-servers=127.0.0.1:%d", s.All[0].RPC)}})
	follower := func(not int) *cluster.Agent { return s.All[(not+1)%3] }
	lead := s.Agreed()
	harness.RegisterRetry(t, follower(lead), harness.CountingJob(harness.CountingEnded, ""))
	defer harness.PurgeAll(t, cl)
	var pid string
	harness.Within(t, 20*time.Second, "the task runs", func() bool {
		allocs, _, err := cl.Client.Jobs().Allocations(harness.CountingID(harness.CountingEnded), false, nil)
		return err == nil && len(allocs) == 1 && allocs[0].ClientStatus == "running"
	})
	pid = harness.PID(t, cl, harness.OnlyAlloc(t, cl, harness.CountingID(harness.CountingEnded)))
	var took []time.Duration
	for range serverKills {
		lead = s.Agreed()
		for range writesEach {
			s.Write(follower(lead))
		}
		if err := s.All[lead].Kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		s.Write(follower(lead))
		took = append(took, time.Since(killed))
		s.Check(follower(lead), false)
		s.All[lead] = harness.Restart(t, s.All[lead])
		s.Check(s.All[lead], true)
		harness.Within(t, 20*time.Second, "all servers are alive", func() bool {
			m, err := s.All[lead].Client.Agent().Members()
			return err == nil && len(m.Members) == 3 && !slices.ContainsFunc(m.Members, func(m *api.AgentMember) bool { return m.Status != "alive" })
		})
	}
	slices.Sort(took)
	t.Logf("leader killed → next write acknowledged: %v", took)
	if took[0] > nextWrite {
		t.Errorf("every next write took more than %v", nextWrite)
	}
	alloc := harness.OnlyAlloc(t, cl, harness.CountingID(harness.CountingEnded))
	if got := harness.PID(t, cl, alloc); got != pid || alloc.TaskStates["t"].Restarts != 0 {
		t.Errorf("the task is process %s, was %s", got, pid)
	}
	// The node is reached through any server.
	for _, a := range s.All {
		if got := harness.PID(t, a, alloc); got != pid {
			t.Errorf("through %s the task is process %s", a.Address(), got)
		}
	}
}
