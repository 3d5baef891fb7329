package nodes_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// hungLimit bounds requests while the leader's process is stopped: 5 s timeout, 3 s for an answer,
// and the election of another leader, by servers that may stall for some seconds. Nothing else
// would end the wait: the process exists.
const hungLimit = 30 * time.Second

// noLeader is the error after waiting too long for a leader.
const noLeader = "No cluster leader"

// withNode starts three servers and a client with a task that counts lines.
func withNode(t *testing.T) (s *harness.Servers, cl *cluster.Agent, alloc *api.AllocationListStub) {
	t.Helper()
	s = harness.StartServers(t)
	dir := filepath.Join(harness.TempDir(t), "client")
	cfg := filepath.Join(harness.TempDir(t), "raw.hcl")
	harness.WriteFile(t, cfg, "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	cl = harness.StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg,
			fmt.Sprintf("-servers=127.0.0.1:%d", s.All[0].RPC)}})
	harness.RegisterRetry(t, s.All[0], harness.CountingJob(harness.CountingEnded, ""))
	harness.Within(t, 20*time.Second, "the task runs", func() bool {
		allocs, _, err := s.All[0].Client.Jobs().Allocations(harness.CountingID(harness.CountingEnded), false, nil)
		return err == nil && len(allocs) == 1 && allocs[0].ClientStatus == "running"
	})
	alloc = harness.OnlyAlloc(t, s.All[0], harness.CountingID(harness.CountingEnded))
	harness.PID(t, s.All[0], alloc)
	return s, cl, alloc
}

// nodeServer returns the server with the newest connection of a node.
func nodeServer(s *harness.Servers, node string) int {
	s.T.Helper()
	pool := rpc.NewPool(rpc.PoolConfig{})
	defer pool.Close()
	best := -1
	harness.Within(s.T, harness.Patience, "a connection of the node", func() bool {
		newest := time.Time{}
		for i, a := range s.All {
			var out message.NodeConnQueryResponse
			req := &message.NodeSpecificRequest{NodeID: node, QueryOptions: message.QueryOptions{Region: "global", AllowStale: true}}
			if err := pool.Call(s.T.Context(), fmt.Sprintf("127.0.0.1:%d", a.RPC), "Status.HasNodeConn", req, &out); err != nil {
				s.T.Fatal(err)
			}
			if out.Connected && out.Established.After(newest) {
				best, newest = i, out.Established
			}
		}
		return best >= 0
	})
	return best
}

// follow reads the task's log through a server and counts the lines.
func follow(t *testing.T, through *cluster.Agent, region, alloc string) (lines *atomic.Int64, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET",
		through.Address()+"/v1/client/fs/logs/"+alloc+"?task=t&type=stdout&follow=true&plain=true&region="+region, nil)
	if err != nil {
		t.Fatal(err)
	}
	var resp *http.Response
	harness.Within(t, harness.Patience, "a log to follow", func() bool { // retry while there is no leader
		if resp, err = http.DefaultClient.Do(req); err != nil {
			t.Fatalf("follow the log: %v", err)
		}
		if resp.StatusCode != 200 {
			resp.Body.Close()
		}
		return resp.StatusCode == 200
	})
	lines = new(atomic.Int64)
	done := make(chan error, 1)
	go func() {
		defer resp.Body.Close()
		in := bufio.NewScanner(resp.Body)
		for in.Scan() {
			lines.Add(1)
		}
		done <- in.Err()
	}()
	harness.Within(t, 10*time.Second, "lines of the log", func() bool { return lines.Load() > 2 })
	return lines, done
}

// A leader's process is stopped, not ended: its machine still accepts packets. Reads continue at
// another leader. A pending write reports that it may have been done, later ones succeed, and a log
// followed through other servers is not interrupted.
func TestStoppedLeaderBlocksBriefly(t *testing.T) {
	s, cl, alloc := withNode(t)
	defer harness.PurgeAll(t, cl)
	ours, lead, other := -1, 0, 0
	var lines *atomic.Int64
	var ended <-chan error
	// The node may have moved to another server, whose leader must not be the one that serves the
	// log.
	harness.Within(t, time.Minute, "a log that comes through a follower", func() bool {
		ours = nodeServer(s, alloc.NodeID)
		lead, other = (ours+1)%3, (ours+2)%3
		transferLead(s, lead)
		lines, ended = follow(t, s.All[other], "global", alloc.ID)
		return nodeServer(s, alloc.NodeID) == ours
	})
	pause(t, s.All[lead])
	stopped := time.Now()
	reads := make(chan error, 2)
	for _, i := range []int{ours, other} {
		go func() {
			_, _, err := s.All[i].Client.Jobs().Info(harness.CountingID(harness.CountingEnded), nil)
			for err != nil && strings.Contains(err.Error(), noLeader) && time.Since(stopped) < hungLimit {
				_, _, err = s.All[i].Client.Jobs().Info(harness.CountingID(harness.CountingEnded), nil)
			}
			reads <- err
		}()
	}
	wrote := make(chan error, 1)
	go func() {
		_, _, err := s.All[other].Client.Jobs().Register(harness.EmptyJob("at-once"), nil)
		wrote <- err
	}()
	for range 2 {
		if err := <-reads; err != nil {
			t.Errorf("a read during the change: %v", err)
		}
	}
	read := time.Since(stopped)
	if err := <-wrote; err != nil && !strings.Contains(err.Error(), "may have been applied or not") &&
		!strings.Contains(err.Error(), noLeader) {
		t.Errorf("a write during the change: %v", err)
	}
	took := time.Since(stopped)
	t.Logf("leader stopped → reads answered after %v, the write in flight after %v", read, took)
	if took > hungLimit {
		t.Errorf("the last call took %v, want at most %v", took, hungLimit)
	}
	begun := time.Now()
	s.Write(s.All[other])
	if after := time.Since(begun); after > hungLimit-took {
		t.Errorf("the next write took %v", after)
	}
	seen := lines.Load()
	harness.Within(t, 5*time.Second, "the log continues", func() bool { return lines.Load() > seen+10 })
	select {
	case err := <-ended:
		t.Errorf("the log ended: %v", err)
	default:
	}
	signal(t, s.All[lead], syscall.SIGCONT)
	s.Check(s.All[lead], false)
	node, _, err := s.All[other].Client.Nodes().Info(alloc.NodeID, nil)
	if err != nil || node.Status != "ready" {
		t.Errorf("the node is %+v, %v", node, err)
	}
}

// A node is reached through every server, even after its own server has ended.
func TestNodeIsReachedAfterItsServerDied(t *testing.T) {
	s, cl, alloc := withNode(t)
	defer harness.PurgeAll(t, cl)
	gone := nodeServer(s, alloc.NodeID)
	lines, ended := [3]*atomic.Int64{}, [3]<-chan error{}
	for i := range s.All {
		lines[i], ended[i] = follow(t, s.All[i], "global", alloc.ID)
	}
	if err := s.All[gone].Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range s.All { // each continues over another connection of the node, or reports an interruption
		seen := lines[i].Load()
		harness.Within(t, 10*time.Second, "the log continues or ends", func() bool {
			select {
			case err := <-ended[i]:
				if err == nil {
					t.Errorf("the log through server %d ends without an error", i)
				}
				return true
			default:
				return lines[i].Load() > seen+10
			}
		})
	}
	for i := range s.All {
		if i == gone {
			continue
		}
		harness.Within(t, 10*time.Second, "the node is reached through another server", func() bool {
			return strings.Contains(harness.Log(s.All[i], alloc), "line 1\n")
		})
		follow(t, s.All[i], "global", alloc.ID)
	}
	s.All[gone] = harness.Restart(t, s.All[gone])
	harness.Within(t, 10*time.Second, "the node is reached through the server that came back", func() bool {
		return strings.Contains(harness.Log(s.All[gone], alloc), "line 1\n")
	})
}

// lead transfers leadership to a server.
func transferLead(s *harness.Servers, i int) {
	s.T.Helper()
	leads := func() bool {
		return !slices.ContainsFunc(s.All, func(a *cluster.Agent) bool { return s.Leader(a) != i })
	}
	harness.Within(s.T, harness.Patience, "another leader", func() bool {
		// A stalled server does not take over, and others may lead in the meantime.
		if err := s.All[i].Client.Operator().RaftTransferLeadershipByAddress(fmt.Sprintf("127.0.0.1:%d", s.All[i].RPC), nil); err != nil &&
			!leads() {
			return false
		}
		for range 50 { // not all servers know the leader yet
			if leads() {
				return true
			}
			time.Sleep(20 * time.Millisecond)
		}
		return false
	})
}

// pause stops the process of an agent, and returns when its last thread has stopped; it continues
// at the latest when the test ends.
func pause(t *testing.T, a *cluster.Agent) {
	t.Helper()
	signal(t, a, syscall.SIGSTOP)
	t.Cleanup(func() { syscall.Kill(a.Pid(), syscall.SIGCONT) }) // it may have ended
	for {
		err := unix.Waitid(unix.P_PID, a.Pid(), nil, unix.WSTOPPED, nil)
		if err == nil {
			return
		}
		if err != unix.EINTR {
			t.Fatalf("wait for the stop of process %d: %v", a.Pid(), err)
		}
	}
}

func signal(t *testing.T, a *cluster.Agent, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(a.Pid(), sig); err != nil {
		t.Fatal(err)
	}
}
