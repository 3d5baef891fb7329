package allocrunner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// joiner is the mock driver with support for networks. It records its task configurations.
type joiner struct {
	*mock.Driver
	starts chan *drivers.TaskConfig
}

func (j *joiner) Capabilities() drivers.Capabilities {
	c := j.Driver.Capabilities()
	c.Networks, c.Mounts = []string{"host", "group"}, true
	return c
}

func (j *joiner) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	j.starts <- cfg
	return j.Driver.StartTask(ctx, cfg)
}

// spaces makes namespaces as the client does.
type spaces struct{ *netns.Set }

func (s spaces) Make(_ context.Context, alloc string) (string, error) { return s.Set.Make(alloc) }

// lonely returns a batch allocation with its own network namespace.
func lonely(config map[string]any) *nomad.Allocation {
	a := allocation(nomad.JobTypeBatch, mockTask("web", config))
	a.Job.TaskGroups[0].Networks = nomad.Networks{{Mode: "none", DNS: &nomad.DNSConfig{Servers: []string{"127.0.0.1"}}}}
	return a
}

// networked returns a world with networks, and the configurations of its driver's starts.
func networked(t *testing.T) (w *world, dir string, starts chan *drivers.TaskConfig) {
	t.Helper()
	if !netns.Possible() {
		t.Skip("needs root")
	}
	w, starts = newWorld(t), make(chan *drivers.TaskConfig, 9)
	dir = filepath.Join(w.dir, "netns")
	set := netns.New(dir)
	t.Cleanup(func() {
		if err := set.Sweep(func(string) bool { return false }); err != nil {
			t.Error(err)
		}
	})
	w.nets = spaces{set}
	w.driver = func(d *mock.Driver) drivers.Driver { return &joiner{d, starts} }
	return w.agent(), dir, starts
}

func namespace(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestNetworkOfTheAllocation(t *testing.T) {
	w, dir, starts := networked(t)
	alloc := lonely(map[string]any{"run_for": "1ms"})
	got := w.run(alloc)
	cfg := <-starts
	if got.ClientStatus != nomad.AllocClientStatusComplete || cfg.NetNS != filepath.Join(dir, alloc.ID) {
		t.Errorf("status %s, namespace %q", got.ClientStatus, cfg.NetNS)
	}
	if len(cfg.Files) != 2 || cfg.Files[1].Name != "web/private/resolv.conf" {
		t.Errorf("files = %+v", cfg.Files)
	}
	if n := got.NetworkStatus; n == nil || n.InterfaceName != "lo" || n.Address != "127.0.0.1" || n.DNS == nil {
		t.Errorf("network status = %+v", n)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// The next agent uses the same namespace. It is removed after the last task, although the
// allocation is kept.
func TestNetworkOutlivesTheAgent(t *testing.T) {
	w, dir, _ := networked(t)
	alloc := lonely(map[string]any{"run_for": "1h"})
	ctx, cancel := context.WithCancel(t.Context())
	first := w.runner(alloc)
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	testpace.Until(t, "the task runs", func() bool { return first.State().ClientStatus == nomad.AllocClientStatusRunning })
	path := filepath.Join(dir, alloc.ID)
	before := namespace(t, path)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	next := w.agent()
	second := next.runner(alloc)
	if err := second.Restore(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- second.Run(t.Context()) }()
	testpace.Until(t, "the task runs", func() bool { return second.State().ClientStatus == nomad.AllocClientStatusRunning })
	if namespace(t, path) != before {
		t.Error("the next agent created another namespace")
	}
	if err := second.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the namespace still exists: %v", err)
	}
	if err := second.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// finalDriver is the mock driver. It calls ending when a task that has ended is dropped.
type finalDriver struct {
	*joiner
	ending func()
}

func (d *finalDriver) DestroyTask(id string, force bool) error {
	d.ending()
	return d.joiner.DestroyTask(id, force)
}

// disconnections records whether the contexts of disconnections have ended.
type disconnections struct {
	allochook.Connections
	errs []error
}

func (d *disconnections) Disconnect(ctx context.Context, _ string) error {
	d.errs = append(d.errs, ctx.Err())
	return nil
}

// An agent that ends after the last task, but before the allocation is cleaned up, removes the network.
func TestNetworkRemovedAtTheEndOfTheAgent(t *testing.T) {
	w, dir, starts := networked(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.driver = func(d *mock.Driver) drivers.Driver { return &finalDriver{&joiner{d, starts}, cancel} }
	connect := &disconnections{}
	w.connect = connect
	alloc := lonely(map[string]any{"run_for": "1ms"})
	if err := w.agent().runner(alloc).Run(ctx); err != nil {
		t.Errorf("Run() = %v, want nil: the allocation has ended", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, alloc.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the namespace still exists: %v", err)
	}
	if len(connect.errs) != 1 || connect.errs[0] != nil {
		t.Errorf("contexts of disconnections: %v, want one that has not ended", connect.errs)
	}
}

func TestUnsupportedNetworks(t *testing.T) {
	w, dir, _ := networked(t)
	for _, c := range []struct {
		name, want string
		edit       func(w *world, a *nomad.Allocation)
	}{
		{"driver", `task "web": driver "mock_driver" can't join the group's network of mode "none"`,
			func(w *world, _ *nomad.Allocation) { w.driver = nil }},
		{"mode", `network mode "bridge"`, func(_ *world, a *nomad.Allocation) { a.Job.TaskGroups[0].Networks[0].Mode = "bridge" }},
		{"client", "does not create network namespaces", func(w *world, _ *nomad.Allocation) { w.nets = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			other, alloc := *w, lonely(map[string]any{"run_for": "1ms"})
			c.edit(&other, alloc)
			got := other.agent().run(alloc)
			if got.ClientStatus != nomad.AllocClientStatusFailed || !strings.Contains(got.ClientDescription, c.want) {
				t.Errorf("%s: %s, want %q", got.ClientStatus, got.ClientDescription, c.want)
			}
			if entries, err := os.ReadDir(dir); err == nil && len(entries) != 0 {
				t.Errorf("left over: %v", entries)
			}
		})
	}
}

// creator is the mock driver, which creates the networks of allocations itself.
type creator struct {
	joiner
	network   drivers.GroupNetwork
	destroyed chan *drivers.GroupNetwork
	failures  atomic.Int32 // calls of CreateNetwork that will fail
}

func (c *creator) Capabilities() drivers.Capabilities {
	caps := c.joiner.Capabilities()
	caps.MustCreateNetwork = true
	return caps
}

func (c *creator) CreateNetwork(_ context.Context, alloc, _ string) (*drivers.GroupNetwork, error) {
	if c.failures.Add(-1) >= 0 {
		return nil, errOffline
	}
	n := c.network
	n.Labels = map[string]string{"alloc": alloc}
	return &n, nil
}

func (c *creator) DestroyNetwork(_ context.Context, _ string, n *drivers.GroupNetwork) error {
	c.destroyed <- n
	return nil
}

// TestNetworkOfTheDriver runs an allocation whose driver creates its network.
func TestNetworkOfTheDriver(t *testing.T) {
	w, dir, starts := networked(t)
	destroyed := make(chan *drivers.GroupNetwork, 9)
	w.driver = func(d *mock.Driver) drivers.Driver {
		return &creator{joiner: joiner{d, starts}, network: drivers.GroupNetwork{Path: "/proc/self/ns/net"}, destroyed: destroyed}
	}
	w.nets = nil // the client could not create one
	w = w.agent()
	alloc := lonely(map[string]any{"run_for": "1ms"})
	if got := w.run(alloc); got.ClientStatus != nomad.AllocClientStatusComplete {
		t.Fatalf("status %s: %s", got.ClientStatus, got.ClientDescription)
	}
	if cfg := <-starts; cfg.NetNS != "/proc/self/ns/net" || cfg.NetLabels["alloc"] != alloc.ID {
		t.Errorf("namespace %q, labels %v", cfg.NetNS, cfg.NetLabels)
	}
	if n := <-destroyed; n == nil || n.Labels["alloc"] != alloc.ID || len(destroyed) != 0 {
		t.Errorf("destroyed %+v, and %d more, want the created network once", n, len(destroyed))
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) != 0 {
		t.Errorf("left over: %v", entries)
	}
	for _, h := range allochook.Order(allochook.Config{Deps: allochook.Deps{Drivers: w.set}, Alloc: alloc}) {
		if h.Name() != "network" {
			continue
		}
		if err := h.(allochook.DestroyHook).Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := <-destroyed; n != nil {
		t.Errorf("destroyed %+v, want nil from an agent that did not create it", n)
	}
}

// TestNetwork_RestoredFails checks that a driver which cannot find the network for a while ends no task of an earlier
// agent, and that a new allocation fails at once.
func TestNetwork_RestoredFails(t *testing.T) {
	w, _, starts := networked(t)
	var driver *creator
	w.driver = func(d *mock.Driver) drivers.Driver {
		if driver == nil { // the next agent has the same driver, which still has the task
			driver = &creator{joiner: joiner{d, starts}, network: drivers.GroupNetwork{Path: "/proc/self/ns/net"},
				destroyed: make(chan *drivers.GroupNetwork, 9)}
		}
		return driver
	}
	w = w.agent()
	driver.failures.Store(1)
	if got := w.run(lonely(map[string]any{"run_for": "1ms"})); got.ClientStatus != nomad.AllocClientStatusFailed {
		t.Errorf("status of a new allocation: %s", got.ClientStatus)
	}
	alloc := lonely(map[string]any{"run_for": "1h"})
	ctx, cancel := context.WithCancel(t.Context())
	first := w.runner(alloc)
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	testpace.Until(t, "the task runs", func() bool { return first.State().ClientStatus == nomad.AllocClientStatusRunning })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	next := w.agent()
	driver.failures.Store(3)
	second := next.runner(alloc)
	if err := second.Restore(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- second.Run(t.Context()) }()
	testpace.Until(t, "the network is found", func() bool { return driver.failures.Load() < 0 })
	testpace.Until(t, "the task runs", func() bool { return second.State().ClientStatus == nomad.AllocClientStatusRunning })
	if len(starts) != 1 {
		t.Errorf("%d starts, want one", len(starts))
	}
	if err := second.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
