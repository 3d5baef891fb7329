package harness

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// EmptyJob returns a job without allocations.
func EmptyJob(id string) *api.Job {
	kind, count := "batch", 0
	return &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{{Name: &id, Count: &count,
		Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Privileged: true, Config: map[string]any{"command": "/bin/true"}}}}}}
}

const writeLimit = 15 * time.Second

// Servers is a cluster of three server processes.
type Servers struct {
	T     *testing.T
	All   []*cluster.Agent
	Acked []string // jobs with an acknowledged registration
}

// StartServers starts three servers that elect a leader.
func StartServers(t *testing.T) *Servers {
	return StartServersWith(t, func(*cluster.Options) {})
}

// StartServersWith is startServers with further options for each.
func StartServersWith(t *testing.T, more func(*cluster.Options)) *Servers {
	t.Helper()
	s := &Servers{T: t}
	dir := TempDir(t)
	first := 0
	for i := range 3 {
		o := cluster.Options{Dir: filepath.Join(dir, fmt.Sprint(i))}
		o.Args = []string{"-server", "-bootstrap-expect=3", "-bind=127.0.0.1", fmt.Sprintf("-node=s%d", i),
			"-data-dir=" + filepath.Join(o.Dir, "data")}
		if i > 0 {
			o.Args = append(o.Args, fmt.Sprintf("-retry-join=127.0.0.1:%d", first))
		}
		more(&o)
		a := StartIn(t, o)
		if i == 0 {
			first = a.Serf
		}
		s.All = append(s.All, a)
	}
	Within(t, 20*time.Second, "a leader of three", func() bool {
		conf, err := s.All[2].Client.Operator().RaftGetConfiguration(nil)
		return err == nil && len(conf.Servers) == 3
	})
	Within(t, 20*time.Second, "all servers in the member lists", func() bool {
		return !slices.ContainsFunc(s.All, func(a *cluster.Agent) bool { return s.Alive(a) != 3 })
	})
	s.Agreed()
	return s
}

// Agreed waits until all servers name the same leader, and returns it.
func (s *Servers) Agreed() int {
	s.T.Helper()
	lead := -1
	Within(s.T, 20*time.Second, "a leader known to all servers", func() bool {
		lead = s.Leader(s.All[0])
		return lead >= 0 && !slices.ContainsFunc(s.All, func(a *cluster.Agent) bool { return s.Leader(a) != lead })
	})
	return lead
}

// Alive counts the members that a server sees as alive.
func (s *Servers) Alive(ask *cluster.Agent) int {
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

// Leader returns the leader, or -1 if unknown.
func (s *Servers) Leader(ask *cluster.Agent) int {
	addr, err := ask.Client.Status().Leader()
	if err != nil {
		return -1
	}
	return slices.IndexFunc(s.All, func(a *cluster.Agent) bool { return addr == fmt.Sprintf("127.0.0.1:%d", a.RPC) })
}

// Write registers a job through a server, and retries until it is acknowledged.
func (s *Servers) Write(through *cluster.Agent) {
	s.T.Helper()
	id := fmt.Sprintf("acked-%d", len(s.Acked))
	job := EmptyJob(id)
	var err error
	Within(s.T, writeLimit, "a write is acknowledged", func() bool {
		_, _, err = through.Client.Jobs().Register(job, nil)
		return err == nil
	})
	s.Acked = append(s.Acked, id)
}

// Check reads every acknowledged job through a server.
func (s *Servers) Check(through *cluster.Agent, stale bool) {
	s.T.Helper()
	for _, id := range s.Acked {
		Within(s.T, writeLimit, "job "+id+" is there", func() bool {
			job, _, err := through.Client.Jobs().Info(id, &api.QueryOptions{AllowStale: stale})
			return err == nil && *job.ID == id
		})
	}
}
