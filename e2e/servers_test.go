package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	serverKills = 3               // leaders that are killed, one after the other
	writesEach  = 10              // acknowledged writes before each kill
	nextWrite   = 2 * time.Second // maximum time to the next write, in at least one of the kills
	writeLimit  = 15 * time.Second
)

// servers is a cluster of three server processes.
type servers struct {
	t     *testing.T
	all   []*cluster.Agent
	acked []string // jobs with an acknowledged registration
}

func startServers(t *testing.T) *servers {
	return startServersWith(t, func(*cluster.Options) {})
}

// startServersWith is startServers with further options for each.
func startServersWith(t *testing.T, more func(*cluster.Options)) *servers {
	t.Helper()
	s := &servers{t: t}
	dir := tempDir(t)
	first := 0
	for i := range 3 {
		o := cluster.Options{Dir: filepath.Join(dir, fmt.Sprint(i))}
		o.Args = []string{"-server", "-bootstrap-expect=3", "-bind=127.0.0.1", fmt.Sprintf("-node=s%d", i), "-data-dir=" + filepath.Join(o.Dir, "data")}
		if i > 0 {
			o.Args = append(o.Args, fmt.Sprintf("-retry-join=127.0.0.1:%d", first))
		}
		more(&o)
		a := startIn(t, o)
		if i == 0 {
			first = a.Serf
		}
		s.all = append(s.all, a)
	}
	within(t, 20*time.Second, "a leader of three", func() bool {
		conf, err := s.all[2].Client.Operator().RaftGetConfiguration(nil)
		return err == nil && len(conf.Servers) == 3
	})
	within(t, 20*time.Second, "all servers in the member lists", func() bool {
		return !slices.ContainsFunc(s.all, func(a *cluster.Agent) bool { return s.alive(a) != 3 })
	})
	s.agreed()
	return s
}

// agreed waits until all servers name the same leader, and returns it.
func (s *servers) agreed() int {
	s.t.Helper()
	lead := -1
	within(s.t, 20*time.Second, "a leader known to all servers", func() bool {
		lead = s.leader(s.all[0])
		return lead >= 0 && !slices.ContainsFunc(s.all, func(a *cluster.Agent) bool { return s.leader(a) != lead })
	})
	return lead
}

// alive counts the members that a server sees as alive.
func (s *servers) alive(ask *cluster.Agent) int {
	m, err := ask.Client.Agent().Members()
	if err != nil {
		return 0
	}
	n := 0
	for _, m := range m.Members {
		if m.Status == "alive" {
			n++
		}
	}
	return n
}

// leader returns the leader, or -1 if unknown.
func (s *servers) leader(ask *cluster.Agent) int {
	addr, err := ask.Client.Status().Leader()
	if err != nil {
		return -1
	}
	return slices.IndexFunc(s.all, func(a *cluster.Agent) bool { return addr == fmt.Sprintf("127.0.0.1:%d", a.RPC) })
}

// write registers a job through a server, and retries until it is acknowledged.
func (s *servers) write(through *cluster.Agent) {
	s.t.Helper()
	id := fmt.Sprintf("acked-%d", len(s.acked))
	job := countlessJob(id)
	var err error
	within(s.t, writeLimit, "a write is acknowledged", func() bool {
		_, _, err = through.Client.Jobs().Register(job, nil)
		return err == nil
	})
	s.acked = append(s.acked, id)
}

// check reads every acknowledged job through a server.
func (s *servers) check(through *cluster.Agent, stale bool) {
	s.t.Helper()
	for _, id := range s.acked {
		within(s.t, writeLimit, "job "+id+" is there", func() bool {
			job, _, err := through.Client.Jobs().Info(id, &api.QueryOptions{AllowStale: stale})
			return err == nil && *job.ID == id
		})
	}
}

// Leaders are killed one after the other, and return with their data: writes continue, no
// acknowledged one is lost, and the tasks of a client continue.
func TestKilledLeadersLoseNothing(t *testing.T) {
	s := startServers(t)
	dir := filepath.Join(tempDir(t), "client")
	cfg := filepath.Join(tempDir(t), "raw.hcl")
	write(t, cfg, "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	cl := startIn(t, cluster.Options{Dir: dir, Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg,
		fmt.Sprintf("-servers=127.0.0.1:%d", s.all[0].RPC)}})
	follower := func(not int) *cluster.Agent { return s.all[(not+1)%3] }
	lead := s.agreed()
	registers(t, follower(lead), countingJob(crashEnded, ""))
	defer purgeAll(t, cl)
	var pid string
	within(t, 20*time.Second, "the task runs", func() bool {
		allocs, _, err := cl.Client.Jobs().Allocations(jobID(crashEnded), false, nil)
		return err == nil && len(allocs) == 1 && allocs[0].ClientStatus == "running"
	})
	pid = pidOf(t, cl, onlyAlloc(t, cl, jobID(crashEnded)))
	var took []time.Duration
	for range serverKills {
		lead = s.agreed()
		for range writesEach {
			s.write(follower(lead))
		}
		if err := s.all[lead].Kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		s.write(follower(lead))
		took = append(took, time.Since(killed))
		s.check(follower(lead), false)
		s.all[lead] = again(t, s.all[lead])
		s.check(s.all[lead], true)
		within(t, 20*time.Second, "all servers are alive", func() bool {
			m, err := s.all[lead].Client.Agent().Members()
			return err == nil && len(m.Members) == 3 && !slices.ContainsFunc(m.Members, func(m *api.AgentMember) bool { return m.Status != "alive" })
		})
	}
	slices.Sort(took)
	t.Logf("leader killed → next write acknowledged: %v", took)
	if took[0] > nextWrite {
		t.Errorf("every next write took more than %v", nextWrite)
	}
	alloc := onlyAlloc(t, cl, jobID(crashEnded))
	if got := pidOf(t, cl, alloc); got != pid || alloc.TaskStates["t"].Restarts != 0 {
		t.Errorf("the task is process %s, was %s", got, pid)
	}
	// The node is reached through any server.
	for _, a := range s.all {
		if got := pidOf(t, a, alloc); got != pid {
			t.Errorf("through %s the task is process %s", a.Address(), got)
		}
	}
}
