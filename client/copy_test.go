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
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// realServer is a complete server, which runs until the test ends or stop is called.
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

var inGlobal = message.QueryOptions{Region: "global"}

func (s *realServer) node(id string) *nomad.Node {
	s.t.Helper()
	return ask[message.SingleNodeResponse](s, "Node.GetNode", &message.NodeSpecificRequest{NodeID: id, QueryOptions: inGlobal}).Node
}

// run registers a service with one mock task and returns its running allocation.
func (s *realServer) run(id string) *nomad.AllocListStub {
	s.t.Helper()
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	job := a.Job
	job.TaskGroups[0].EphemeralDisk.SizeMB = 50
	job.ID, job.Name, job.Type, job.Datacenters, job.Priority = id, id, nomad.JobTypeService, []string{"dc1"}, 50
	ask[message.JobRegisterResponse](s, "Job.Register",
		&message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global"}})
	var got *nomad.AllocListStub
	testpace.Until(s.t, "the job runs", func() bool {
		got = s.allocOf(id)
		return got != nil && got.ClientStatus == nomad.AllocClientStatusRunning
	})
	return got
}

// allocOf returns the running allocation of a job. If the node is marked down for a moment, the
// job gets a new allocation.
func (s *realServer) allocOf(job string) *nomad.AllocListStub {
	q := inGlobal
	q.Namespace = "default"
	out := ask[message.JobAllocationsResponse](s, "Job.Allocations", &message.JobSpecificRequest{JobID: job, QueryOptions: q})
	wanted := slices.DeleteFunc(out.Allocations, func(a *nomad.AllocListStub) bool { return a.DesiredStatus != nomad.AllocDesiredStatusRun })
	if len(wanted) != 1 {
		return nil
	}
	return wanted[0]
}

// copied returns the configuration of a client with a copy of n's state, with another boot ID
// or the same.
func copied(t *testing.T, n *clienttest.Node, boot string) client.Config {
	t.Helper()
	dir := clienttest.Dir(t)
	if err := os.CopyFS(filepath.Join(dir, "client"), os.DirFS(n.Cfg.StateDir)); err != nil {
		t.Fatal(err)
	}
	cfg := n.Cfg
	cfg.StateDir, cfg.AllocDir, cfg.Name, cfg.Meta = filepath.Join(dir, "client"), filepath.Join(dir,
		"alloc"), "copy", map[string]string{"is": "a copy"}
	if boot != "" {
		cfg.BootFile = filepath.Join(dir, "boot")
		if err := os.WriteFile(cfg.BootFile, []byte(boot), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// A client with a copy of a running node's state is refused, with instructions, changes nothing
// and runs no allocation.
func TestCopy(t *testing.T) {
	for name, c := range map[string]struct{ boot, refusal string }{
		"on another machine": {"another", "on another machine"},
		"on the same one":    {"", "another running agent on this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startReal(t, nil)
			original := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), s.RPCAddr()))
			<-original.Ready()
			a := s.run("j")
			node := s.node(original.NodeID())
			cfg := copied(t, original, c.boot)
			other := clienttest.Start(t, cfg)
			testpace.Until(t, "the copy is refused", func() bool {
				err := other.Healthy()
				return err != nil && strings.Contains(err.Error(), apierror.ErrNodeHeld.Error())
			})
			for _, text := range []string{c.refusal, "client-id", "secret-id"} {
				if err := other.Healthy(); !strings.Contains(err.Error(), text) {
					t.Errorf("the refusal %q does not contain %q", err, text)
				}
			}
			if other.NodeID() != original.NodeID() || c.boot != "" && other.HasAlloc(a.ID) {
				t.Errorf("the copy is node %s, and runs the allocation %t", other.NodeID(), other.HasAlloc(a.ID))
			}
			if err := other.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := original.RPC().Call(t.Context(), "NodeIdentity.Renew", &message.NodeIdentityRenewReq{},
				&message.NodeIdentityRenewResp{}); err != nil {
				t.Fatal(err)
			}
			if now := s.allocOf("j"); !reflect.DeepEqual(now, a) || original.Healthy() != nil || !original.HasAlloc(a.ID) {
				t.Errorf("the original changed: %v, its allocation %+v was %+v", original.Healthy(), now, a)
			}
			if now := s.node(original.NodeID()); !reflect.DeepEqual(now, node) {
				t.Errorf("the original's node %+v was %+v", now, node)
			}
			// Follow the instructions in the message.
			for _, name := range []string{"client-id", "secret-id"} {
				if err := os.Remove(filepath.Join(cfg.StateDir, name)); err != nil {
					t.Fatal(err)
				}
			}
			mended := clienttest.Start(t, cfg)
			<-mended.Ready()
			if mended.NodeID() == original.NodeID() || s.node(mended.NodeID()).Name != "copy" {
				t.Error("the corrected copy is not a separate node")
			}
			testpace.Until(t, "the mended copy drops what it never ran", func() bool { return !mended.HasAlloc(a.ID) })
			if now := s.allocOf("j"); !reflect.DeepEqual(now, a) {
				t.Errorf("the corrected copy changed the allocation from %+v to %+v", a, now)
			}
		})
	}
}

// A restarted agent registers as fast as a new one, and its tasks keep running.
func TestRestart_RegistersAgain(t *testing.T) {
	s := startReal(t, nil)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), s.RPCAddr()))
	<-n.Ready()
	a := s.run("j")
	again := n
	testpace.Once(t, 500*time.Millisecond, "a restart", func() time.Duration {
		if err := again.Stop(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		again = clienttest.Start(t, n.Cfg)
		<-again.Ready()
		return time.Since(begun)
	})
	if again.NodeID() != n.NodeID() || !again.HasAlloc(a.ID) {
		t.Error("the restarted agent has another node ID or lost its allocation")
	}
}

// A backup of the node is accepted after the node has missed its heartbeat, and then restores
// its allocations.
func TestCopy_SilentNode(t *testing.T) {
	t.Parallel()
	s := startReal(t, func(c *server.Config) {
		// A TTL of three seconds: a busy node must not miss its heartbeats.
		c.MinHeartbeatTTL, c.HeartbeatGrace, c.MaxHeartbeatsPerSecond = time.Second, 2*time.Second, 1e6
	})
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), s.RPCAddr()))
	<-n.Ready()
	cfg := copied(t, n, "another")
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	backup := clienttest.Start(t, cfg)
	<-backup.Ready()
	if got := s.node(n.NodeID()); got.Name != "copy" || backup.NodeID() != n.NodeID() {
		t.Errorf("the node is %q", got.Name)
	}
	s.run("j")
}

// After a reboot allocations are restored only after the registration; without a reboot, at
// once.
func TestRestart_AfterReboot(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	f.Edit(func() { f.NotReady = errors.New("not now") })
	same := clienttest.Start(t, n.Cfg)
	testpace.Until(t, "it is taken up without servers", func() bool { return same.HasAlloc(a.ID) })
	if err := same.Stop(); err != nil {
		t.Fatal(err)
	}
	cfg := n.Cfg
	cfg.BootFile = filepath.Join(t.TempDir(), "boot")
	if err := os.WriteFile(cfg.BootFile, []byte("the next"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := clienttest.Start(t, cfg)
	tried := f.Tries.Load()
	testpace.Until(t, "it tried to register", func() bool { return f.Tries.Load() > tried+2 })
	if next.HasAlloc(a.ID) {
		t.Error("an unregistered agent runs allocations of an earlier boot")
	}
	f.Edit(func() { f.NotReady = nil })
	testpace.Until(t, "it is taken up once the node is registered", func() bool { return next.HasAlloc(a.ID) })
}
