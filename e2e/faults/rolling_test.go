//go:build linux && faults

package faults_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// longestPause is the accepted pause of writes while a server is restarted in an orderly way, on a
// busy machine.
const longestPause = 30 * time.Second

// client starts a client, and a job with three tasks on it.
func (s *trio) client() *cluster.Agent {
	s.t.Helper()
	dir := s.t.TempDir()
	cfg := filepath.Join(dir, "raw.hcl")
	if err := os.WriteFile(cfg, []byte("plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	o := cluster.Options{Bin: cluster.Built(s.t), Dir: dir, Log: &lines{}, Args: []string{"-client", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}}
	for _, a := range s.all {
		o.Args = append(o.Args, fmt.Sprintf("-servers=127.0.0.1:%d", a.RPC))
	}
	a, err := cluster.Start(s.t.Context(), o)
	if err != nil {
		s.t.Fatalf("start client: %v\n%s", err, o.Log)
	}
	s.t.Cleanup(func() {
		s.purge(a)
		if err := a.Kill(); err != nil {
			s.t.Error(err)
		}
		if s.t.Failed() {
			s.t.Logf("last output of the client:\n%s", o.Log)
		}
	})
	id, kind, count, cpu, memory := "runs", "service", 3, 10, 10
	job := &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{{Name: &id, Count: &count,
		Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Privileged: true, Resources: &api.Resources{CPU: &cpu, MemoryMB: &memory},
			Config: map[string]any{"command": "/bin/sleep", "args": []string{"900"}}}}}}}
	if _, _, err := s.all[0].Client.Jobs().Register(job, nil); err != nil {
		s.t.Fatal(err)
	}
	return a
}

// purge stops the tasks of the client.
func (s *trio) purge(client *cluster.Agent) {
	for _, a := range s.all {
		if _, _, err := a.Client.Jobs().Deregister("runs", true, nil); err == nil {
			break
		}
	}
	s.within("the tasks are gone", func() error {
		allocs, _, err := s.all[s.lead()].Client.Jobs().Allocations("runs", true, nil)
		for _, al := range allocs {
			if al.ClientStatus == "running" {
				err = fmt.Errorf("allocation %s runs", al.ID)
			}
		}
		return err
	})
}

// running describes the allocations of the job, once three run.
func (s *trio) running() (out []string) {
	s.t.Helper()
	s.within("three allocations run", func() error {
		out = nil
		allocs, _, err := s.all[0].Client.Jobs().Allocations("runs", true, nil)
		if err != nil {
			return err
		}
		for _, al := range allocs {
			if al.ClientStatus != "running" || al.DesiredStatus != "run" || al.TaskStates["t"] == nil {
				return fmt.Errorf("allocation %s is %s", al.ID, al.ClientStatus)
			}
			task := al.TaskStates["t"]
			out = append(out, fmt.Sprint(al.ID, " ", task.Restarts, " ", task.StartedAt.UnixNano()))
		}
		if len(out) != 3 {
			return fmt.Errorf("%d allocations", len(out))
		}
		slices.Sort(out)
		return nil
	})
	return out
}

// rateLimited writes continuously and records the longest time between two acknowledged writes.
type rateLimited struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
	done    func()
}

// steady starts to write through all answering servers.
func (s *trio) steady() *rateLimited {
	ctx, cancel := context.WithCancel(s.t.Context())
	p := &rateLimited{last: time.Now()}
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for n := w; ctx.Err() == nil; n++ {
				s.mu.Lock()
				a := s.all[n%3]
				s.mu.Unlock()
				if s.write(a, 0) == nil {
					p.mu.Lock()
					p.longest, p.last = max(p.longest, time.Since(p.last)), time.Now()
					p.mu.Unlock()
				}
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	p.done = func() { cancel(); all.Wait() }
	return p
}

// Servers are restarted one after the other with their data, the leader last, like in an upgrade.
// Writes continue, none is lost, and the allocations of the client do not change.
func TestRollingRestart(t *testing.T) {
	for name, config := range map[string]string{
		"stops":  "leave_on_terminate = false\n",
		"leaves": "leave_on_terminate = true\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startTrio(t, config)
			s.client()
			before := s.running()
			p := s.steady()
			defer p.done()
			first := s.lead()
			for _, i := range []int{(first + 1) % 3, (first + 2) % 3, first} {
				if err := s.all[i].Stop(); err != nil {
					t.Fatal(err)
				}
				was := s.writes()
				s.within("writes without the server", func() error {
					if n := s.writes() - was; n < 20 {
						return fmt.Errorf("only %d", n)
					}
					return nil
				})
				o := s.all[i].Options
				for _, other := range slices.Concat(s.all[:i], s.all[i+1:]) { // the first one started without others
					o.Args = append(slices.Clip(o.Args), fmt.Sprintf("-retry-join=127.0.0.1:%d", other.Serf))
				}
				a, err := cluster.Start(t.Context(), o)
				if err != nil {
					t.Fatalf("start server %d again: %v\n%s", i, err, s.all[i].Log)
				}
				s.mu.Lock()
				s.all[i] = a
				s.mu.Unlock()
				s.lead()
				s.caughtUp(i)
			}
			p.done()
			s.complete()
			if after := s.running(); !slices.Equal(before, after) {
				t.Errorf("the allocations are\n%s\nwere\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
			}
			s.same()
			t.Logf("%s: %d writes, longest pause between two %v", name, s.writes(), p.longest.Round(time.Millisecond))
			if p.longest > longestPause {
				t.Errorf("writes stood still for %v, %v is the limit", p.longest, longestPause)
			}
		})
	}
}

// caughtUp waits until a server is a voter and has all writes acknowledged before.
func (s *trio) caughtUp(i int) {
	s.t.Helper()
	s.mu.Lock()
	last := s.acked[len(s.acked)-1]
	s.mu.Unlock()
	s.within(fmt.Sprintf("server %d votes and has caught up", i), func() error {
		conf, err := s.all[i].Client.Operator().RaftGetConfiguration(nil)
		if err != nil {
			return err
		}
		for _, v := range conf.Servers {
			if v.Node == fmt.Sprintf("s%d.global", i) && !v.Voter {
				return fmt.Errorf("%s does not vote yet", v.Node)
			}
		}
		_, _, err = s.all[i].Client.Jobs().Info(last, &api.QueryOptions{AllowStale: true})
		return err
	})
}
