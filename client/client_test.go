package client_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// node is a client under test.
type node struct {
	*client.Client
	cfg  client.Config
	stop func() error
}

// config returns the configuration of a node with its files in dir.
func config(dir string, servers ...string) client.Config {
	return client.Config{
		Region: "global", Datacenter: "dc1", Name: "n1", NodePool: "default",
		StateDir: filepath.Join(dir, "client"), AllocDir: filepath.Join(dir, "alloc"), Servers: servers,
		Fingerprint:    fingerprint.Config{Version: "2.0.6", AllocDir: dir, Loopback: true},
		DynamicUserMin: 80000, DynamicUserMax: 89999,
		GC: allocs.GCConfig{Interval: time.Hour, ParallelDestroys: 2, MaxAllocs: 50, DiskPercent: 101, InodePercent: 101},
	}
}

// nodeDir returns a directory for a node. Mounts that the node leaves behind are unmounted at
// the end.
func nodeDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(mounts)) {
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, dir+"/") {
				if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
					t.Errorf("unmount %s: %v", at, err)
				}
			}
		}
	})
	return dir
}

func testLog() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// start runs a client until the test ends or stop is called.
func start(t *testing.T, cfg client.Config) *node {
	t.Helper()
	return startWith(t, cfg, echoing{mock.New(mock.Name, testLog())})
}

// startWith is like start, with other drivers.
func startWith(t *testing.T, cfg client.Config, list ...drivers.Driver) *node {
	t.Helper()
	c, err := client.New(cfg, client.Parts{Drivers: list, Log: testLog()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	n := &node{Client: c, cfg: cfg}
	n.stop = func() error {
		cancel()
		err := <-ended
		ended <- nil
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	return n
}

// alloc returns an allocation with one mock task.
func alloc(taskConfig map[string]any) *nomad.Allocation {
	task := &nomad.Task{
		Name: "main", Driver: mock.Name, Config: taskConfig, KillTimeout: time.Second,
		Resources: &nomad.Resources{CPU: 100, MemoryMB: 16}, LogConfig: &nomad.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
		RestartPolicy: &nomad.RestartPolicy{Mode: nomad.RestartPolicyModeFail},
	}
	group := &nomad.TaskGroup{Name: "g", Count: 1, Tasks: []*nomad.Task{task},
		RestartPolicy: &nomad.RestartPolicy{Mode: nomad.RestartPolicyModeFail}, EphemeralDisk: &nomad.EphemeralDisk{SizeMB: 1}}
	return &nomad.Allocation{
		ID: nomad.NewID(), NodeID: "n", Namespace: "default", JobID: "j", TaskGroup: "g", Name: "j.g[0]",
		Job:           &nomad.Job{ID: "j", Name: "j", Namespace: "default", Type: "batch", Region: "global", TaskGroups: []*nomad.TaskGroup{group}},
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusPending,
		AllocatedResources: &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{
			"main": {Cpu: nomad.AllocatedCpuResources{CpuShares: 100}, Memory: nomad.AllocatedMemoryResources{MemoryMB: 16}},
		}},
	}
}

func TestBecomesReady(t *testing.T) {
	var (
		f   *fakeServer
		dir string
		n   *node
	)
	testpace.Once(t, 500*time.Millisecond, "to become ready", func() time.Duration {
		f, dir = startServer(t), nodeDir(t)
		begun := time.Now()
		n = start(t, config(dir, f.addr()))
		<-n.Ready()
		return time.Since(begun)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != nomad.NodeStatusReady {
		t.Errorf("status = %q", f.status)
	}
	if f.registers[0] != "" {
		t.Errorf("the first registration carries a token of %d bytes", len(f.registers[0]))
	}
	got := f.node
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

// A restarted node keeps its ID and sends its stored token.
func TestIdentitySurvivesRestart(t *testing.T) {
	f := startServer(t)
	dir := nodeDir(t)
	n := start(t, config(dir, f.addr()))
	<-n.Ready()
	id := n.NodeID()
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	n = start(t, config(dir, f.addr()))
	<-n.Ready()
	if n.NodeID() != id {
		t.Errorf("node ID %s became %s", id, n.NodeID())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.registers[len(f.registers)-1]; !f.tokens[last] {
		t.Error("the second registration does not carry the stored token")
	}
}

// A client retries at once when a server is just starting.
func TestServerNotReadyYet(t *testing.T) {
	testpace.Once(t, time.Second, "to become ready after the server", func() time.Duration {
		f := startServer(t)
		f.notReady = errors.New("keyring has not been initialized yet")
		n := start(t, config(nodeDir(t), f.addr()))
		refused := time.After(300 * time.Millisecond)
		select {
		case <-n.Ready():
			t.Fatal("ready before the server")
		case <-refused:
		}
		f.edit(func() { f.notReady = nil })
		begun := time.Now()
		<-n.Ready()
		return time.Since(begun)
	})
}

func TestIntroductionToken(t *testing.T) {
	f := startServer(t)
	cfg := config(nodeDir(t), f.addr())
	cfg.IntroToken = "intro"
	n := start(t, cfg)
	<-n.Ready()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.registers[0] != "intro" {
		t.Error("the first registration does not carry the introduction token")
	}
}

// A node that the servers have lost registers again. Its allocations keep running.
func TestLostNodeRegistersAgain(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	<-n.Ready()
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "the allocation runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	f.edit(func() { f.node = nil })
	f.until(t, "the node is back", func() bool { return f.node != nil && f.status == nomad.NodeStatusReady })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.registers) != 2 || status(f, a) != nomad.AllocClientStatusRunning {
		t.Errorf("%d registrations, allocation %s", len(f.registers), status(f, a))
	}
}

func TestRenewal(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	<-n.Ready()
	before := claims(t, n)["jti"]
	if exp := claims(t, n)["exp"]; exp != int64(1_795_345_970) {
		t.Errorf("exp = %v (%T), want an integer", exp, exp)
	}
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Renew", &message.NodeIdentityRenewReq{}, &message.NodeIdentityRenewResp{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "a new token is used", func() bool { return claims(t, n)["jti"] != before })
}

func claims(t *testing.T, n *node) map[string]any {
	t.Helper()
	var resp message.NodeIdentityGetResp
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Get", &message.NodeIdentityGetReq{}, &resp); err != nil {
		t.Fatal(err)
	}
	return resp.Claims
}

// status returns the last status that the client sent of an allocation.
func status(f *fakeServer, a *nomad.Allocation) string {
	if u := f.updated[a.ID]; u != nil {
		return u.ClientStatus
	}
	return ""
}

func TestRunsToItsEnd(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	good, bad := alloc(map[string]any{"run_for": "10ms"}), alloc(map[string]any{"run_for": "10ms", "exit_code": 3})
	f.place(good)
	f.place(bad)
	<-n.Ready()
	f.until(t, "both are terminal", func() bool {
		return status(f, good) == nomad.AllocClientStatusComplete && status(f, bad) == nomad.AllocClientStatusFailed
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if ts := f.updated[bad.ID].TaskStates["main"]; ts == nil || !ts.Failed || ts.State != nomad.TaskStateDead {
		t.Errorf("task state = %+v", ts)
	}
}

// Statuses are sent again until the servers accept them.
func TestStatusIsSentUntilAccepted(t *testing.T) {
	f := startServer(t)
	f.failUpdate = 3
	start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "10ms"})
	f.place(a)
	f.until(t, "the end is reported", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
}

func TestStop(t *testing.T) {
	f := startServer(t)
	start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "the allocation runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	stopped := *a
	stopped.DesiredStatus = nomad.AllocDesiredStatusStop
	f.place(&stopped)
	f.until(t, "the allocation is complete", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
}

// An allocation that is stopped before the node pulls it is reported as complete and never
// runs.
func TestStoppedBeforePulled(t *testing.T) {
	f := startServer(t)
	dir := nodeDir(t)
	a := alloc(map[string]any{"run_for": "1h"})
	a.DesiredStatus = nomad.AllocDesiredStatusStop
	f.place(a)
	n := start(t, config(dir, f.addr()))
	f.until(t, "the allocation is complete", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
	if n.HasAlloc(a.ID) {
		t.Error("the allocation was started")
	}
}

// An allocation that the servers no longer list is stopped and removed.
func TestUnlistedIsRemoved(t *testing.T) {
	f := startServer(t)
	dir := nodeDir(t)
	n := start(t, config(dir, f.addr()))
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "the allocation runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	f.edit(func() { delete(f.allocs, a.ID) })
	f.until(t, "the allocation is gone", func() bool { return !n.HasAlloc(a.ID) })
	if _, err := os.Stat(filepath.Join(dir, "alloc", a.ID)); !os.IsNotExist(err) {
		t.Errorf("allocation directory: %v", err)
	}
}

// A restarted agent recovers its tasks without a restart, and reports the end of a task that
// exited meanwhile.
func TestRestartedAgentRecoversTasks(t *testing.T) {
	f := startServer(t)
	dir := nodeDir(t)
	n := start(t, config(dir, f.addr()))
	long := alloc(map[string]any{"run_for": "1h"})
	f.place(long)
	f.until(t, "the long allocation runs", func() bool { return status(f, long) == nomad.AllocClientStatusRunning })
	begun := func() time.Time { return f.updated[long.ID].TaskStates["main"].StartedAt }
	f.mu.Lock()
	first := begun()
	f.mu.Unlock()
	var short *nomad.Allocation
	for runs := time.Second; ; runs *= 3 { // on a busy machine the task may exit before the agent
		short = alloc(map[string]any{"run_for": runs.String(), "exit_code": 4})
		f.place(short)
		f.until(t, "the short allocation has started", func() bool {
			return status(f, short) == nomad.AllocClientStatusRunning || status(f, short) == nomad.AllocClientStatusFailed
		})
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		sent := status(f, short)
		f.mu.Unlock()
		if sent == nomad.AllocClientStatusRunning {
			break
		}
		n = start(t, config(dir, f.addr()))
		<-n.Ready()
	}
	f.mu.Lock()
	clear(f.updated)
	f.mu.Unlock()
	start(t, config(dir, f.addr()))
	f.until(t, "the short allocation has failed", func() bool { return status(f, short) == nomad.AllocClientStatusFailed })
	f.until(t, "the long allocation runs", func() bool { return status(f, long) == nomad.AllocClientStatusRunning })
	f.mu.Lock()
	defer f.mu.Unlock()
	if !begun().Equal(first) || f.updated[long.ID].TaskStates["main"].Restarts != 0 {
		t.Errorf("the long task was restarted: %v, then %v", first, begun())
	}
	if e := f.updated[short.ID].TaskStates["main"].Events; !slices.ContainsFunc(e, func(e *nomad.TaskEvent) bool { return e.Details["exit_code"] == "4" }) {
		t.Error("the exit code is not reported")
	}
}

// An ephemeral node stops its tasks when it stops.
func TestEphemeralNodeStopsItsTasks(t *testing.T) {
	f := startServer(t)
	cfg := config(nodeDir(t), f.addr())
	cfg.Ephemeral = true
	n := start(t, cfg)
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "the allocation runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	begun := time.Now()
	if err := n.stop(); err != nil {
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
func TestNoServerAnswers(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	<-n.Ready()
	f.stop()
	f.until(t, "the node is unhealthy", func() bool { return n.Healthy() != nil })
	if err := n.Healthy(); !strings.HasPrefix(err.Error(), "no server has answered since ") {
		t.Errorf("Healthy() = %v", err)
	}
	_, err := n.Servers().Stream(t.Context(), "FileSystem.Logs")
	want := "no servers: no server can be reached at " + f.addr() + " (connection refused)"
	if err == nil || err.Error() != want {
		t.Errorf("Stream() = %v, want %q", err, want)
	}
}

// If the first server is dead, the second is used.
func TestFailover(t *testing.T) {
	dead, f := startServer(t), startServer(t)
	dead.ln.Close()
	n := start(t, config(nodeDir(t), dead.addr(), f.addr()))
	<-n.Ready()
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
}

// An ephemeral node retries failed removals when it stops.
func TestEphemeralNodeLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a mount blocks the removal")
	}
	f := startServer(t)
	cfg := config(nodeDir(t), f.addr())
	cfg.Ephemeral = true
	n := start(t, cfg)
	a := alloc(map[string]any{"run_for": "1ms"})
	f.place(a)
	f.until(t, "the end is reported", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
	<-n.Ended(a.ID)
	data := filepath.Join(cfg.AllocDir, a.ID, "alloc", "data")
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := n.RPC().Call(t.Context(), "Allocations.GarbageCollectAll", &message.NodeSpecificRequest{}, &message.GenericResponse{}); err != nil {
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
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(cfg.AllocDir)
	if err != nil || len(left) != 1 || left[0].Name() != other {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCollectsTheOldest(t *testing.T) {
	f := startServer(t)
	cfg := config(nodeDir(t), f.addr())
	cfg.GC.MaxAllocs = 2
	n := start(t, cfg)
	var all []*nomad.Allocation
	for range 4 {
		a := alloc(map[string]any{"run_for": "1ms"})
		all = append(all, a)
		f.place(a)
		f.until(t, "the end is reported", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
		<-n.Ended(a.ID) // the age of the allocation starts here
	}
	f.until(t, "two remain", func() bool {
		return !n.HasAlloc(all[0].ID) && !n.HasAlloc(all[1].ID) && n.HasAlloc(all[2].ID) && n.HasAlloc(all[3].ID)
	})
	// On request the others are removed too, except the running one.
	running := alloc(map[string]any{"run_for": "1h"})
	f.place(running)
	f.until(t, "the allocation runs", func() bool { return status(f, running) == nomad.AllocClientStatusRunning })
	req := &message.AllocSpecificRequest{AllocID: running.ID}
	if err := n.RPC().Call(t.Context(), "Allocations.GarbageCollect", req, &message.GenericResponse{}); code(err) != 400 {
		t.Errorf("collecting a running allocation = %v, want 400", err)
	}
	if err := n.RPC().Call(t.Context(), "Allocations.GarbageCollectAll", &message.NodeSpecificRequest{}, &message.GenericResponse{}); err != nil {
		t.Fatal(err)
	}
	if n.HasAlloc(all[3].ID) || !n.HasAlloc(running.ID) {
		t.Error("the wrong allocations remain")
	}
	// A collected allocation is not fetched and run again.
	f.edit(func() {})
	f.until(t, "still gone", func() bool { return !n.HasAlloc(all[3].ID) })
}

func code(err error) int {
	var coded *nomad.CodedError
	if errors.As(err, &coded) {
		return coded.Code
	}
	return 0
}

// A health change of a driver is reported at once, with an event.
func TestDriverTurnsUnhealthy(t *testing.T) {
	f := startServer(t)
	cfg := config(nodeDir(t), f.addr())
	d := mock.New(mock.Name, testLog())
	if err := d.SetConfig(cty.ObjectVal(map[string]cty.Value{"shutdown_periodic_after": cty.True, "shutdown_periodic_duration": cty.NumberIntVal(1)})); err != nil {
		t.Fatal(err)
	}
	n := startWith(t, cfg, d)
	<-n.Ready()
	f.until(t, "the driver is unhealthy", func() bool { return f.node != nil && !f.node.Drivers[mock.Name].Healthy })
	f.until(t, "there is an event", func() bool {
		return len(f.events) == 1 && f.events[0].Subsystem == nomad.NodeEventSubsystemDriver && f.events[0].Details["driver"] == mock.Name
	})
}

// Directories that an earlier version created ahead of time are removed.
func TestUnusedDirectoriesOfEarlierVersion(t *testing.T) {
	f := startServer(t)
	dir := nodeDir(t)
	unused := filepath.Join(dir, "client", "spare")
	if err := os.MkdirAll(filepath.Join(unused, "t1", "local"), 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, config(dir, f.addr()))
	f.until(t, "the unused directories are removed", func() bool {
		_, err := os.Lstat(unused)
		return os.IsNotExist(err)
	})
}

// A second client on the same state fails at once, and so does a corrupt state.
func TestBadStateDirectory(t *testing.T) {
	f := startServer(t)
	dir := nodeDir(t)
	start(t, config(dir, f.addr()))
	if c, err := client.New(config(dir, f.addr()), client.Parts{Log: slog.New(slog.DiscardHandler)}); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("New() on a state in use = %v, %v", c, err)
	}
	dir = nodeDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "client"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client", "client-id"), []byte("no uuid"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := client.New(config(dir, f.addr()), client.Parts{Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Errorf("New() with a broken client-id = %v", c)
	}
}
