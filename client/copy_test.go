package client_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// realServer is a whole server, which runs until the test ends or stop is called.
type realServer struct {
	*server.Server
	t    *testing.T
	stop func()
}

func startReal(t *testing.T, change func(*server.Config)) *realServer {
	t.Helper()
	cfg := server.Config{Region: "global", Datacenter: "dc1", Name: "s1", RPCAddr: testnet.Any, Version: "2.0.6"}
	if change != nil {
		change(&cfg)
	}
	s, err := server.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r := &realServer{Server: s, t: t}
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended: %v", err)
		}
		ended <- nil
	}
	t.Cleanup(r.stop)
	return r
}

// ask makes a call that must succeed.
func ask[T any](s *realServer, method string, req any) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out T
	if err := s.Call(ctx, method, req, &out); err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	return out
}

var inGlobal = nomad.QueryOptions{Region: "global"}

func (s *realServer) node(id string) *nomad.Node {
	s.t.Helper()
	return ask[nomad.SingleNodeResponse](s, "Node.GetNode", &nomad.NodeSpecificRequest{NodeID: id, QueryOptions: inGlobal}).Node
}

// run registers a service of one mock task and returns its allocation once it runs.
func (s *realServer) run(id string) *nomad.AllocListStub {
	s.t.Helper()
	a := alloc(map[string]any{"run_for": "1h"})
	job := a.Job
	job.TaskGroups[0].EphemeralDisk.SizeMB = 50
	job.ID, job.Name, job.Type, job.Datacenters, job.Priority = id, id, nomad.JobTypeService, []string{"dc1"}, 50
	ask[nomad.JobRegisterResponse](s, "Job.Register", &nomad.JobRegisterRequest{Job: job, WriteRequest: nomad.WriteRequest{Region: "global"}})
	var got *nomad.AllocListStub
	soon(s.t, "the job runs", func() bool {
		got = s.allocOf(id)
		return got != nil && got.ClientStatus == nomad.AllocClientStatusRunning
	})
	return got
}

// allocOf is the allocation of a job that is to run. A node that is down for a moment, on a
// busy machine, has another in its place.
func (s *realServer) allocOf(job string) *nomad.AllocListStub {
	q := inGlobal
	q.Namespace = "default"
	out := ask[nomad.JobAllocationsResponse](s, "Job.Allocations", &nomad.JobSpecificRequest{JobID: job, QueryOptions: q})
	wanted := slices.DeleteFunc(out.Allocations, func(a *nomad.AllocListStub) bool { return a.DesiredStatus != nomad.AllocDesiredStatusRun })
	if len(wanted) != 1 {
		return nil
	}
	return wanted[0]
}

// soon waits for a condition that no channel tells of.
func soon(t *testing.T, what string, met func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !met() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// copied is the configuration of a client with a copy of n's state, on a machine of
// another boot or the same.
func copied(t *testing.T, n *node, boot string) client.Config {
	t.Helper()
	dir := nodeDir(t)
	if err := os.CopyFS(filepath.Join(dir, "client"), os.DirFS(n.cfg.StateDir)); err != nil {
		t.Fatal(err)
	}
	cfg := n.cfg
	cfg.StateDir, cfg.AllocDir, cfg.Name, cfg.Meta = filepath.Join(dir, "client"), filepath.Join(dir, "alloc"), "copy", map[string]string{"is": "a copy"}
	if boot != "" {
		cfg.BootFile = filepath.Join(dir, "boot")
		if err := os.WriteFile(cfg.BootFile, []byte(boot), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// A copy of a node's state, with a living node: the copy is told how to mend it, and
// changes nothing; neither does it run what the state says.
func TestCopyOfTheState(t *testing.T) {
	for name, c := range map[string]struct{ boot, says string }{
		"on another machine": {"another", "on another machine"},
		"on the same one":    {"", "another agent on this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startReal(t, nil)
			original := start(t, config(nodeDir(t), s.RPCAddr()))
			<-original.Ready()
			a := s.run("j")
			node := s.node(original.NodeID())
			cfg := copied(t, original, c.boot)
			other := start(t, cfg)
			soon(t, "the copy is refused", func() bool {
				err := other.Healthy()
				return err != nil && strings.Contains(err.Error(), nomad.ErrNodeHeld.Error())
			})
			for _, text := range []string{c.says, "client-id", "secret-id"} {
				if err := other.Healthy(); !strings.Contains(err.Error(), text) {
					t.Errorf("the refusal %q does not say %q", err, text)
				}
			}
			if other.NodeID() != original.NodeID() || c.boot != "" && other.HasAlloc(a.ID) {
				t.Errorf("the copy is node %s, and runs the allocation %t", other.NodeID(), other.HasAlloc(a.ID))
			}
			if err := other.stop(); err != nil {
				t.Fatal(err)
			}
			if err := original.RPC().Call(t.Context(), "NodeIdentity.Renew", &nomad.NodeIdentityRenewReq{}, &nomad.NodeIdentityRenewResp{}); err != nil {
				t.Fatal(err)
			}
			if now := s.allocOf("j"); !reflect.DeepEqual(now, a) || original.Healthy() != nil || !original.HasAlloc(a.ID) {
				t.Errorf("the original is disturbed: %v, its allocation %+v was %+v", original.Healthy(), now, a)
			}
			if now := s.node(original.NodeID()); !reflect.DeepEqual(now, node) {
				t.Errorf("the original's node %+v was %+v", now, node)
			}
			// As the message says.
			for _, name := range []string{"client-id", "secret-id"} {
				if err := os.Remove(filepath.Join(cfg.StateDir, name)); err != nil {
					t.Fatal(err)
				}
			}
			mended := start(t, cfg)
			<-mended.Ready()
			if mended.NodeID() == original.NodeID() || s.node(mended.NodeID()).Name != "copy" {
				t.Error("the mended copy is no node of its own")
			}
			soon(t, "the mended copy drops what it never ran", func() bool { return !mended.HasAlloc(a.ID) })
			if now := s.allocOf("j"); !reflect.DeepEqual(now, a) {
				t.Errorf("the mended copy changed the allocation from %+v to %+v", a, now)
			}
		})
	}
}

// A restarted agent registers as fast as a new one, and its tasks run on.
func TestRestartBesidesItself(t *testing.T) {
	s := startReal(t, nil)
	n := start(t, config(nodeDir(t), s.RPCAddr()))
	<-n.Ready()
	a := s.run("j")
	again := n
	testpace.Once(t, 500*time.Millisecond, "a restart", func() time.Duration {
		if err := again.stop(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		again = start(t, n.cfg)
		<-again.Ready()
		return time.Since(begun)
	})
	if again.NodeID() != n.NodeID() || !again.HasAlloc(a.ID) {
		t.Error("the restarted agent is another node, or lost its allocation")
	}
}

// A backup of the node is let in when the node has missed its heartbeat, and takes up
// its allocations then.
func TestBackupOfASilentNode(t *testing.T) {
	t.Parallel()
	s := startReal(t, func(c *server.Config) {
		// The node is silent after three seconds: the backup, on a busy machine, never is.
		c.MinHeartbeatTTL, c.HeartbeatGrace, c.MaxHeartbeatsPerSecond = time.Second, 2*time.Second, 1e6
	})
	n := start(t, config(nodeDir(t), s.RPCAddr()))
	<-n.Ready()
	cfg := copied(t, n, "another")
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	backup := start(t, cfg)
	<-backup.Ready()
	if got := s.node(n.NodeID()); got.Name != "copy" || backup.NodeID() != n.NodeID() {
		t.Errorf("the node is %q", got.Name)
	}
	s.run("j")
}

// After a boot nothing is taken up until the servers know the node; on the same boot
// at once.
func TestTakesUpAllocationsAfterABoot(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "it runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	f.edit(func() { f.notReady = errors.New("not now") })
	same := start(t, n.cfg)
	soon(t, "it is taken up without servers", func() bool { return same.HasAlloc(a.ID) })
	if err := same.stop(); err != nil {
		t.Fatal(err)
	}
	cfg := n.cfg
	cfg.BootFile = filepath.Join(t.TempDir(), "boot")
	if err := os.WriteFile(cfg.BootFile, []byte("the next"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := start(t, cfg)
	tried := f.tries.Load()
	soon(t, "it tried to register", func() bool { return f.tries.Load() > tried+2 })
	if next.HasAlloc(a.ID) {
		t.Error("an agent that no server knows runs allocations of an earlier boot")
	}
	f.edit(func() { f.notReady = nil })
	soon(t, "it is taken up once the node is registered", func() bool { return next.HasAlloc(a.ID) })
}

// The flag of a forced renewal outlives the agent, until a new identity is there.
func TestForcedRenewalOutlivesTheAgent(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	<-n.Ready()
	before := claims(t, n)["jti"]
	f.edit(func() { f.deafToRenewal = true })
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Renew", &nomad.NodeIdentityRenewReq{}, &nomad.NodeIdentityRenewResp{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "it asks", func() bool { return f.forced > 0 })
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	f.edit(func() { f.forced, f.keepTokens = 0, true })
	again := start(t, n.cfg)
	f.until(t, "the next agent asks", func() bool { return f.forced > 0 })
	if got := claims(t, again)["jti"]; got != before {
		t.Fatalf("the identity changed to %v: nothing was shown", got)
	}
	f.edit(func() { f.deafToRenewal = false })
	soon(t, "it has a new identity", func() bool { return claims(t, again)["jti"] != before })
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	f.edit(func() { f.forced = 0 })
	last := start(t, n.cfg)
	<-last.Ready()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forced != 0 {
		t.Error("an agent that has its new identity asks for another")
	}
}
