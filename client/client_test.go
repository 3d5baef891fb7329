package client_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestClient_BecomesReady(t *testing.T) {
	var (
		f   *clienttest.Server
		dir string
		n   *clienttest.Node
	)
	testpace.Once(t, 500*time.Millisecond, "to become ready", func() time.Duration {
		f, dir = clienttest.StartServer(t), clienttest.Dir(t)
		begun := time.Now()
		n = clienttest.Start(t, clienttest.Config(dir, f.Addr()))
		<-n.Ready()
		return time.Since(begun)
	})
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.NodeStatus != nomad.NodeStatusReady {
		t.Errorf("status = %q", f.NodeStatus)
	}
	if f.Registers[0] != "" {
		t.Errorf("the first registration carries a token of %d bytes", len(f.Registers[0]))
	}
	got := f.Node
	if got.ID != n.NodeID() || !nomad.IsUUID(got.SecretID) || got.Datacenter != "dc1" || got.NodePool != "default" {
		t.Errorf("node = %+v", got)
	}
	if got.Attributes["nomad.version"] != "2.0.6" || got.Attributes["driver.mock_driver"] != "1" || got.NodeResources.Memory.MemoryMB == 0 {
		t.Errorf("attributes = %v, resources = %+v", got.Attributes, got.NodeResources)
	}
	if d := got.Drivers["mock_driver"]; d == nil || !d.Healthy {
		t.Errorf("drivers = %v", got.Drivers)
	}
	for name, want := range map[string]string{"client-id": got.ID, "secret-id": got.SecretID} {
		path := filepath.Join(dir, "client", name)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s = %v, %v", name, info.Mode(), err)
		}
		if b, err := os.ReadFile(path); string(b) != want || err != nil {
			t.Errorf("%s does not contain the registered value", name)
		}
	}
	if err := n.Healthy(); err != nil {
		t.Errorf("Healthy() = %v", err)
	}
}

// A client retries at once when a server is just starting.
func TestClient_ServerNotReadyYet(t *testing.T) {
	testpace.Once(t, time.Second, "to become ready after the server", func() time.Duration {
		f := clienttest.StartServer(t)
		f.NotReady = errors.New("keyring has not been initialized yet")
		n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
		refused := time.After(300 * time.Millisecond)
		select {
		case <-n.Ready():
			t.Fatal("ready before the server")
		case <-refused:
		}
		f.Edit(func() { f.NotReady = nil })
		begun := time.Now()
		<-n.Ready()
		return time.Since(begun)
	})
}

// A node that the servers have lost registers again. Its allocations keep running.
func TestClient_RegistersAgain(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	<-n.Ready()
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	f.Edit(func() { f.Node = nil })
	f.Until(t, "the node is back", func() bool { return f.Node != nil && f.NodeStatus == nomad.NodeStatusReady })
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if len(f.Registers) != 2 || f.Status(a) != nomad.AllocClientStatusRunning {
		t.Errorf("%d registrations, allocation %s", len(f.Registers), f.Status(a))
	}
}

// An ephemeral node stops its tasks when it stops.
func TestClient_EphemeralStopsItsTasks(t *testing.T) {
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.Ephemeral = true
	n := clienttest.Start(t, cfg)
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	begun := time.Now()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cfg.AllocDir, a.ID)); !os.IsNotExist(err) {
		t.Errorf("allocation directory: %v", err)
	}
	if took := time.Since(begun); took >= time.Minute {
		t.Errorf("stopped after %v", took)
	}
}

// Without a server the node is unhealthy, and Stream's error names the servers that were tried.
func TestClient_NoServerAnswers(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	<-n.Ready()
	f.Stop()
	f.Until(t, "the node is unhealthy", func() bool { return n.Healthy() != nil })
	if err := n.Healthy(); !strings.HasPrefix(err.Error(), "no server has answered since ") {
		t.Errorf("Healthy() = %v", err)
	}
	_, err := n.Servers().Stream(t.Context(), "FileSystem.Logs")
	want := "no servers: no server can be reached at " + f.Addr() + " (connection refused)"
	if err == nil || err.Error() != want {
		t.Errorf("Stream() = %v, want %q", err, want)
	}
}

// If the first server is dead, the second is used.
func TestClient_Failover(t *testing.T) {
	dead, f := clienttest.StartServer(t), clienttest.StartServer(t)
	dead.Listener.Close()
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), dead.Addr(), f.Addr()))
	<-n.Ready()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
}

// An ephemeral node retries failed removals when it stops.
func TestClient_EphemeralLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a mount blocks the removal")
	}
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.Ephemeral = true
	n := clienttest.Start(t, cfg)
	a := clienttest.Alloc(map[string]any{"run_for": "1ms"})
	f.Place(a)
	f.Until(t, "the end is reported", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
	<-n.Ended(a.ID)
	data := filepath.Join(cfg.AllocDir, a.ID, "alloc", "data")
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := n.RPC().Call(t.Context(), "Allocations.GarbageCollectAll", &message.NodeSpecificRequest{},
		&message.GenericResponse{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data); err != nil || n.HasAlloc(a.ID) {
		t.Fatalf("blocked directory: %v; held: %t, want false", err, n.HasAlloc(a.ID))
	}
	if err := unix.Unmount(data, 0); err != nil {
		t.Fatal(err)
	}
	other := nomad.NewID() // of another agent that shares the directory
	if err := os.Mkdir(filepath.Join(cfg.AllocDir, other), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(cfg.AllocDir)
	if err != nil || len(left) != 1 || left[0].Name() != other {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestClient_CollectsTheOldest(t *testing.T) {
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.GC.MaxAllocs = 2
	n := clienttest.Start(t, cfg)
	var all []*nomad.Allocation
	for range 4 {
		a := clienttest.Alloc(map[string]any{"run_for": "1ms"})
		all = append(all, a)
		f.Place(a)
		f.Until(t, "the end is reported", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
		<-n.Ended(a.ID) // the age of the allocation starts here
	}
	f.Until(t, "two remain", func() bool {
		return !n.HasAlloc(all[0].ID) && !n.HasAlloc(all[1].ID) && n.HasAlloc(all[2].ID) && n.HasAlloc(all[3].ID)
	})
	// On request the others are removed too, except the running one.
	running := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(running)
	f.Until(t, "the allocation runs", func() bool { return f.Status(running) == nomad.AllocClientStatusRunning })
	req := &message.AllocSpecificRequest{AllocID: running.ID}
	if err := n.RPC().Call(t.Context(), "Allocations.GarbageCollect", req, &message.GenericResponse{}); clienttest.Code(err) != 400 {
		t.Errorf("collecting a running allocation = %v, want 400", err)
	}
	if err := n.RPC().Call(t.Context(), "Allocations.GarbageCollectAll", &message.NodeSpecificRequest{},
		&message.GenericResponse{}); err != nil {
		t.Fatal(err)
	}
	if n.HasAlloc(all[3].ID) || !n.HasAlloc(running.ID) {
		t.Error("the wrong allocations remain")
	}
	// A collected allocation is not fetched and run again.
	f.Edit(func() {})
	f.Until(t, "still gone", func() bool { return !n.HasAlloc(all[3].ID) })
}

// A health change of a driver is reported at once, with an event.
func TestClient_UnhealthyDriver(t *testing.T) {
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	d := mock.New(mock.Name, clienttest.Log())
	if err := d.SetConfig(cty.ObjectVal(map[string]cty.Value{"shutdown_periodic_after": cty.True,
		"shutdown_periodic_duration": cty.NumberIntVal(1)})); err != nil {
		t.Fatal(err)
	}
	n := clienttest.StartWith(t, cfg, d)
	<-n.Ready()
	f.Until(t, "the driver is unhealthy", func() bool { return f.Node != nil && !f.Node.Drivers[mock.Name].Healthy })
	f.Until(t, "there is an event", func() bool {
		return len(f.Events) == 1 && f.Events[0].Subsystem == nomad.NodeEventSubsystemDriver && f.Events[0].Details["driver"] == mock.Name
	})
}

// Directories that an earlier version created ahead of time are removed.
func TestClient_UnusedDirectories(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	unused := filepath.Join(dir, "client", "spare")
	if err := os.MkdirAll(filepath.Join(unused, "t1", "local"), 0o700); err != nil {
		t.Fatal(err)
	}
	clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	f.Until(t, "the unused directories are removed", func() bool {
		_, err := os.Lstat(unused)
		return os.IsNotExist(err)
	})
}

// A second client on the same state fails at once, and so does a corrupt state.
func TestClient_BadStateDirectory(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	if c, err := client.New(clienttest.Config(dir, f.Addr()), client.Parts{Log: slog.New(slog.DiscardHandler)}); err == nil ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("New() on a state in use = %v, %v", c, err)
	}
	dir = clienttest.Dir(t)
	if err := os.MkdirAll(filepath.Join(dir, "client"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client", "client-id"), []byte("no uuid"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := client.New(clienttest.Config(dir, f.Addr()), client.Parts{Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Errorf("New() with a broken client-id = %v", c)
	}
}
