package instances_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// plugin is a fake of a plugin. Its fields may be changed while the test holds mu.
type plugin struct {
	mu     sync.Mutex
	ready  bool
	fail   error
	hangs  bool
	probes int
	asked  int // for its description
	closed int
}

func (p *plugin) Traits(context.Context) (csi.Traits, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return csi.Traits{RequiresController: true}, p.fail
}

func (p *plugin) Probe(ctx context.Context) (bool, error) {
	p.mu.Lock()
	hangs, ready, err := p.hangs, p.ready, p.fail
	p.probes++
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return ready, err
}

func (p *plugin) ControllerInfo(context.Context) (*nomad.CSIControllerInfo, error) {
	return &nomad.CSIControllerInfo{SupportsClone: true}, nil
}

func (p *plugin) NodeInfo(context.Context) (*nomad.CSINodeInfo, error) {
	return &nomad.CSINodeInfo{ID: "node-1", MaxVolumes: 7}, nil
}

func (p *plugin) NodeCapabilities(_ context.Context, earlier *nomad.CSINodeInfo) (*nomad.CSINodeInfo, error) {
	out := *earlier
	out.SupportsStats = true
	return &out, nil
}

func (p *plugin) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed++
	return nil
}

// edit changes a fake.
func (p *plugin) edit(change func(p *plugin)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// world is a Set with fakes by the directory of their sockets.
type world struct {
	*instances.Set
	store   memory
	plugins map[string]*plugin
	ended   map[string]bool // allocations

	mu      sync.Mutex
	events  []nomad.NodeEvent
	changes int
}

func newWorld() *world {
	w := &world{store: memory{}, plugins: map[string]*plugin{}, ended: map[string]bool{}}
	w.restart()
	return w
}

// restart replaces the Set by one with the same store.
func (w *world) restart() {
	w.Set = instances.New(instances.Config{Store: w.store, Known: func(alloc string) bool { return !w.ended[alloc] },
		Log: slog.New(slog.DiscardHandler),
		Changed: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changes++
		},
		Emit: func(e nomad.NodeEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		}})
	w.Set.Dial(func(_ context.Context, s csi.Socket) (instances.Describer, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if p := w.plugins[s.Dir]; p != nil {
			return p, nil
		}
		return nil, errors.New("no socket")
	})
}

// run runs the Set until the returned function is called. It restores first.
func (w *world) run(t *testing.T) (stop func()) {
	t.Helper()
	if err := w.Restore(); err != nil {
		t.Errorf("Restore() = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		<-done
	}
}

// register registers an instance of a plugin with a fake.
func (w *world) register(t *testing.T, kind instances.Kind, id, alloc string, p *plugin) {
	t.Helper()
	w.mu.Lock()
	w.plugins[alloc] = p
	w.mu.Unlock()
	err := w.Register(instances.Instance{Kind: kind, ID: id, AllocID: alloc, Provider: "org.example", Version: "1",
		Socket: csi.Socket{Dir: alloc, Name: "csi.sock"}})
	if err != nil {
		t.Errorf("Register(%s, %s) = %v", id, alloc, err)
	}
}

// health returns the texts of the plugins by kind and ID.
func (w *world) health() string {
	controllers, nodes := w.Infos()
	var out []string
	for kind, infos := range map[string]map[string]*nomad.CSIInfo{"c": controllers, "n": nodes} {
		for id, info := range infos {
			out = append(out, fmt.Sprintf("%s/%s@%s %v: %s", kind, id, info.AllocID, info.Healthy, info.HealthDescription))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func (w *world) texts() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		out = append(out, e.Details["type"]+" "+e.Details["plugin"]+" "+e.Message)
	}
	return out
}

// memory is a store. Its user has no concurrent calls.
type memory map[string]*state.CSIInstance

func (m memory) PutCSIInstance(i *state.CSIInstance) error {
	copied := *i
	m[i.Kind+" "+i.PluginID+" "+i.AllocID] = &copied
	return nil
}

func (m memory) DeleteCSIInstance(kind, plugin, alloc string) error {
	delete(m, kind+" "+plugin+" "+alloc)
	return nil
}

func (m memory) CSIInstances() ([]*state.CSIInstance, error) {
	return slices.Collect(maps.Values(m)), nil
}

// TestHealth follows a plugin through its life: what the node reports, and its events.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.run(t)()
		p := &plugin{ready: true}
		step := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := w.health(); got != want {
				t.Errorf("after %s: %s, want %s", after, got, want)
			}
		}
		w.register(t, instances.KindNode, "nfs", "a", p)
		step(0, "n/nfs@a true: healthy")
		p.edit(func(p *plugin) { p.ready = false })
		step(29*time.Second, "n/nfs@a true: healthy")
		step(time.Second, "n/nfs@a false: unhealthy")
		p.edit(func(p *plugin) { p.ready, p.fail = true, errors.New("broken") })
		step(30*time.Second, "n/nfs@a false: failed fingerprinting with error: probe the plugin: broken")
		p.edit(func(p *plugin) { p.fail = errors.New("text of the plugin") })
		step(5*time.Second, "n/nfs@a false: failed fingerprinting with error: probe the plugin: broken") // too early for a new text
		p.edit(func(p *plugin) { p.fail = nil })
		step(5*time.Second, "n/nfs@a true: healthy")
		if err := w.Deregister(instances.KindNode, "nfs", "a"); err != nil {
			t.Error(err)
		}
		step(0, "n/nfs@a false: unhealthy")
		_, nodes := w.Infos()
		if info := nodes["nfs"].NodeInfo; info == nil || info.ID != "node-1" || nodes["nfs"].ControllerInfo != nil || !info.SupportsStats {
			t.Errorf("NodeInfo = %+v", info)
		}
		want := []string{"node nfs healthy", "node nfs unhealthy", "node nfs failed fingerprinting with error: probe the plugin: broken",
			"node nfs healthy", "node nfs unhealthy"}
		if got := w.texts(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if p.asked != 1 || p.closed != 1 {
			t.Errorf("described %d times and closed %d times, want once", p.asked, p.closed)
		}
	})
}

// TestHealth_NoChange checks that a plugin that stays healthy does not register the node again.
func TestHealth_NoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.run(t)()
		p := &plugin{ready: true}
		w.register(t, instances.KindController, "nfs", "a", p)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if w.changes != 1 || p.probes != 21 {
			t.Errorf("%d changes after %d probes, want 1 after 21", w.changes, p.probes)
		}
	})
}

// TestNewestServes checks which of several instances serves, and that a replacement does not interrupt the health.
func TestNewestServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.run(t)()
		for _, alloc := range []string{"a", "b"} {
			w.register(t, instances.KindNode, "nfs", alloc, &plugin{ready: true})
			synctest.Wait()
			if got, want := w.health(), "n/nfs@"+alloc+" true: healthy"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		w.register(t, instances.KindNode, "nfs", "a", w.plugins["a"]) // as its task does after a restart of the agent
		synctest.Wait()
		if got, want := w.health(), "n/nfs@b true: healthy"; got != want {
			t.Errorf("after a repeated registration: %s, want %s", got, want)
		}
		if err := w.Deregister(instances.KindNode, "nfs", "b"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got, want := w.health(), "n/nfs@a true: healthy"; got != want {
			t.Errorf("after a deregistration: %s, want %s", got, want)
		}
		if got := w.texts(); !slices.Equal(got, []string{"node nfs healthy"}) {
			t.Errorf("events %q", got)
		}
	})
}

// TestRestart checks that instances survive a restart of the agent, in their order, without a time in which they are unhealthy
// on the servers. The instance of an allocation that has ended does not.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		stop := w.run(t)
		w.register(t, instances.KindNode, "nfs", "a", &plugin{ready: true})
		time.Sleep(time.Second)
		w.register(t, instances.KindNode, "nfs", "b", &plugin{ready: true})
		w.register(t, instances.KindController, "nfs", "c", &plugin{ready: true})
		synctest.Wait()
		stop()
		if got, want := w.health(), "c/nfs@c true: healthy; n/nfs@b true: healthy"; got != want {
			t.Errorf("at the end of the agent: %s, want %s", got, want)
		}
		w.events, w.ended["c"] = nil, true
		w.restart()
		stop = w.run(t)
		defer func() { stop() }()
		if err := w.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if got, want := w.health(), "n/nfs@b true: healthy"; got != want {
			t.Errorf("after a restart: %s, want %s", got, want)
		}
		if got := w.texts(); len(got) != 0 {
			t.Errorf("events %q, want none: the health has not changed", got)
		}
		if len(w.store) != 2 {
			t.Errorf("%d stored instances, want 2", len(w.store))
		}
	})
}

// TestHangingPlugin checks that a plugin that does not answer delays no other, and does not keep Run from returning.
func TestHangingPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		stop := w.run(t)
		w.register(t, instances.KindNode, "hanging", "a", &plugin{hangs: true})
		w.register(t, instances.KindNode, "nfs", "b", &plugin{ready: true})
		synctest.Wait()
		if got, want := w.health(), "n/hanging@a false: initial fingerprint not completed; n/nfs@b true: healthy"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		stop()
		if got := w.texts(); !slices.Equal(got, []string{"node nfs healthy"}) {
			t.Errorf("events %q: the end of the agent is not a failure of a plugin", got)
		}
	})
}

// TestPlugin_Errors checks the errors for plugins that are not ready, and how long they take.
func TestPlugin_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		register func(t *testing.T, w *world)
		want     string
		missing  bool
	}{
		"no plugin": {func(*testing.T, *world) {}, "csi-node plugin 'nfs' did not become ready: no storage node plugins found", true},
		"another plugin": {func(t *testing.T, w *world) { w.register(t, instances.KindNode, "ebs", "a", &plugin{ready: true}) },
			"csi-node plugin 'nfs' did not become ready: plugin nfs for type csi-node not found", true},
		"another kind": {func(t *testing.T, w *world) {
			w.register(t, instances.KindNode, "ebs", "a", &plugin{ready: true})
			w.register(t, instances.KindController, "nfs", "b", &plugin{ready: true})
		}, "csi-node plugin 'nfs' did not become ready: plugin nfs for type csi-node not found", true},
		"an unhealthy plugin": {func(t *testing.T, w *world) { w.register(t, instances.KindNode, "nfs", "a", &plugin{}) },
			"csi-node plugin 'nfs' did not become ready: unhealthy", false},
		"a missing socket": {func(t *testing.T, w *world) { w.register(t, instances.KindNode, "nfs", "a", nil) },
			"csi-node plugin 'nfs' did not become ready: failed initial fingerprint with err: no socket", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				defer w.run(t)()
				c.register(t, w)
				start := time.Now()
				_, _, err := w.Plugin(context.Background(), instances.KindNode, "nfs")
				if err == nil || err.Error() != c.want || errors.Is(err, instances.ErrNotFound) != c.missing {
					t.Errorf("Plugin() = %v, want %s", err, c.want)
				}
				if got := time.Since(start); got != time.Minute {
					t.Errorf("Plugin() took %s, want a minute", got)
				}
			})
		})
	}
}

// TestPlugin_EndOfContext checks that a caller that gives up gets the error of its context.
func TestPlugin_EndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.run(t)()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, _, err := w.Plugin(ctx, instances.KindNode, "nfs"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Plugin() = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestEndedPlugins checks that plugins which have ended do not stay on the node's record without a limit.
func TestEndedPlugins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.run(t)()
		for n := range 100 {
			id := fmt.Sprint(n)
			w.register(t, instances.KindNode, id, "a"+id, &plugin{ready: true})
			synctest.Wait()
			if err := w.Deregister(instances.KindNode, id, "a"+id); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		_, nodes := w.Infos()
		if len(nodes) != 64 || nodes["99"] == nil || nodes["0"] != nil {
			t.Errorf("%d plugins, want the last 64", len(nodes))
		}
	})
}

// TestRegister_Invalid checks that an instance must be complete.
func TestRegister_Invalid(t *testing.T) {
	w := newWorld()
	for name, i := range map[string]instances.Instance{
		"no kind":       {ID: "nfs", AllocID: "a"},
		"no plugin":     {Kind: instances.KindNode, AllocID: "a"},
		"no allocation": {Kind: instances.KindNode, ID: "nfs"},
	} {
		if err := w.Register(i); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
