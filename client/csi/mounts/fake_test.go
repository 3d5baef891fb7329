package mounts_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	clientcsi "github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/testfault"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestMain(m *testing.M) { os.Exit(testnet.Private(m)) }

// taskRoot is the directory of the plugin as it sees it.
const taskRoot = "/local/csi"

// errCrash is the error of everything that a killed agent would not have done.
var errCrash = errors.New("the agent was killed")

// world is a node with a plugin: what survives an agent.
type world struct {
	t      *testing.T
	dir    string // of the manager
	store  *store
	plugin *plugin
	calls  *servers
	faults testfault.List
	boot   string

	mu     sync.Mutex
	events []nomad.NodeEvent
	log    *strings.Builder
	steps  []string // what agents have done
	crash  int      // the step that kills the agent, 0 for none
	dead   bool
	killed chan struct{} // closed when the agent is dead
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		testnet.Missing(t, "mounts need root")
	}
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "csi"), boot: "boot-1", log: new(strings.Builder)}
	w.store = &store{w: w, uses: map[string]state.CSIMount{}}
	w.calls = &servers{w: w}
	w.plugin = &plugin{w: w, id: "p1", root: filepath.Join(w.dir, "node", "p1"), volumes: t.TempDir(), stages: true,
		staged: map[string]string{}, published: map[string]string{}}
	if err := os.MkdirAll(w.plugin.root, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.end()
		for _, f := range w.faults.Unexpected() {
			t.Error(f)
		}
	})
	return w
}

// end unmounts everything, also after a failed test.
func (w *world) end() {
	for _, point := range slices.Backward(w.points()) {
		_ = unix.Unmount(filepath.Join(w.dir, point), unix.MNT_DETACH) // may be gone with another
	}
}

// points returns the mounts at and below the directory of the manager, relative to it.
func (w *world) points() (out []string) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		point := strings.Fields(line)[4]
		if rel, err := filepath.Rel(w.dir, point); err == nil && filepath.IsLocal(rel) {
			out = append(out, rel)
		}
	}
	return out
}

// files returns the files and directories below the directory of the manager, without entering volumes.
func (w *world) files() (out []string) {
	err := filepath.WalkDir(w.dir, func(name string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.dir, name)
		stays := []string{".", "node", "node/p1", "node/p1/staging", "node/p1/per-alloc"}
		if !slices.Contains(stays, rel) {
			out = append(out, rel)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return out
}

// step counts something that an agent does, and reports whether it is dead.
func (w *world) step(format string, args ...any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dead {
		w.steps = append(w.steps, fmt.Sprintf(format, args...))
		if w.dead = len(w.steps) == w.crash; w.dead {
			close(w.killed)
		}
	}
	if w.dead {
		return errCrash
	}
	return nil
}

// agent is a manager that runs.
type agent struct {
	*mounts.Manager
	stop func()
}

// start starts an agent on the world, after an earlier one was killed.
func (w *world) start(edit ...func(*mounts.Config)) *agent {
	w.t.Helper()
	w.mu.Lock()
	w.dead, w.crash, w.killed = false, 0, make(chan struct{})
	w.mu.Unlock()
	return w.begin(edit...)
}

// begin starts an agent that may be killed.
func (w *world) begin(edit ...func(*mounts.Config)) *agent {
	w.t.Helper()
	cfg := mounts.Config{Dir: w.dir, NodeID: "node-1", Boot: w.boot, Plugins: w.plugin, Store: w.store, Calls: w.calls,
		Emit: w.emit, Log: slog.New(slog.NewTextHandler(w, nil)), RetryMin: 1e6, RetryMax: 1e7}
	for _, e := range edit {
		e(&cfg)
	}
	m := mounts.New(cfg)
	if err := m.Restore(); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx) //nolint:errcheck // ends with ctx
	}()
	a := &agent{m, sync.OnceFunc(func() { cancel(); <-done; m.Close() })}
	w.t.Cleanup(a.stop)
	return a
}

// Write implements io.Writer for the log.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) emit(e nomad.NodeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// store keeps the records.
type store struct {
	w    *world
	mu   sync.Mutex
	uses map[string]state.CSIMount
}

func (s *store) PutCSIMount(m *state.CSIMount) error {
	if err := s.w.step("store %s", m.State); err != nil {
		return err
	}
	s.mu.Lock()
	s.uses[m.Key()] = *m
	s.mu.Unlock()
	return s.w.step("stored %s", m.State)
}

func (s *store) DeleteCSIMount(key string) error {
	if err := s.w.step("delete"); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.uses, key)
	s.mu.Unlock()
	return s.w.step("deleted")
}

func (s *store) CSIMounts() (out []*state.CSIMount, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.uses {
		out = append(out, &m)
	}
	return out, nil
}

// states returns the states of the records by volume and allocation.
func (s *store) states() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for _, m := range s.uses {
		out[m.AllocID+" "+m.VolumeID] = m.State
	}
	return out
}

// servers record which claims are free.
type servers struct {
	w    *world
	mu   sync.Mutex
	free []string
	err  error
}

func (s *servers) Call(_ context.Context, method string, req, _ any) error {
	if err := s.w.step("call %s", method); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := req.(*message.CSIVolumeUnpublishRequest)
	if s.err != nil {
		return s.err
	}
	for _, point := range s.w.points() {
		if strings.Contains(point, "/"+r.Claim.AllocationID+"/"+r.VolumeID+"/") {
			s.w.faults.Add("the claim of %s on %s is free, but %s is mounted", r.Claim.AllocationID, r.VolumeID, point)
		}
	}
	s.free = append(s.free, r.Namespace+"/"+r.VolumeID+" "+r.Claim.AllocationID)
	return nil
}

// freed returns the free claims, without repetitions.
func (s *servers) freed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.free)
	return slices.Compact(slices.Clone(s.free))
}

// plugin is a node plugin that makes bind mounts. It records as faults what the specification forbids to callers. A call of a
// killed agent may have its effect or not.
type plugin struct {
	w        *world
	id, root string
	volumes  string // the storage system
	stages   bool
	confined bool // it is not privileged

	mu        sync.Mutex
	absent    bool                                                // it is not registered
	hang      string                                              // the volume whose calls hang
	publish   func(host string, req *clientcsi.NodeRequest) error // instead of a bind mount
	fails     map[string]error                                    // by method
	staged    map[string]string                                   // volumes by staging path
	published map[string]string                                   // volumes by target path
	requests  []clientcsi.NodeRequest                             // of NodePublish
	expanded  []clientcsi.ExpandRequest                           //
	busy      map[string]bool                                     // volumes with a call
}

func (p *plugin) Await(_ context.Context, id string) (mounts.Plugin, mounts.Instance, error) {
	return p.Current(id)
}

func (p *plugin) Current(id string) (mounts.Plugin, mounts.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.absent || id != p.id {
		return nil, mounts.Instance{}, fmt.Errorf("plugin %s for type csi-node not found: %w", id, instances.ErrNotFound)
	}
	return p, mounts.Instance{Root: p.root, TaskRoot: taskRoot, Stages: p.stages, Privileged: !p.confined}, nil
}

func (p *plugin) set(change func(*plugin)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// used returns what is staged and published.
func (p *plugin) used() (staged, published []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.staged)), slices.Sorted(maps.Keys(p.published))
}

// host returns the path of the plugin on the host.
func (p *plugin) host(path string) string {
	rel, ok := strings.CutPrefix(path, taskRoot+"/")
	if !ok || !filepath.IsLocal(rel) {
		p.w.faults.Add("path %s is not below %s", path, taskRoot)
	}
	return filepath.Join(p.root, rel)
}

// call runs one call. Its effect is a step: an agent may be killed before and after.
func (p *plugin) call(ctx context.Context, method, volume string, effect func() error) error {
	if err := p.w.step("%s %s", method, volume); err != nil {
		return err
	}
	p.mu.Lock()
	hangs, fails := p.hang == volume, p.fails[method]
	if p.busy[volume] {
		p.w.faults.Add("two calls for volume %s at a time", volume)
	}
	if p.busy == nil {
		p.busy = map[string]bool{}
	}
	p.busy[volume] = true
	p.mu.Unlock()
	defer p.set(func(p *plugin) { delete(p.busy, volume) })
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if fails != nil {
		return fails
	}
	if err := effect(); err != nil {
		return err
	}
	return p.w.step("%s %s is done", method, volume)
}

func (p *plugin) NodeStage(ctx context.Context, req *clientcsi.NodeRequest) error {
	return p.call(ctx, "stage", req.VolumeID, func() error {
		at := p.host(req.Staging)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.staged[at] == req.VolumeID {
			return nil
		}
		volume := filepath.Join(p.volumes, req.VolumeID)
		if err := os.MkdirAll(volume, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(volume, at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("stage at %s: %w", at, err)
		}
		p.staged[at] = req.VolumeID
		return nil
	})
}

func (p *plugin) NodePublish(ctx context.Context, req *clientcsi.NodeRequest) error {
	return p.call(ctx, "publish", req.VolumeID, func() error {
		at := p.host(req.Target)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests = append(p.requests, *req)
		source := filepath.Join(p.volumes, req.VolumeID)
		if p.stages {
			source = p.host(req.Staging)
			if p.staged[source] != req.VolumeID {
				p.w.faults.Add("volume %s is published at %s and not staged", req.VolumeID, at)
			}
		} else if req.Staging != "" {
			p.w.faults.Add("volume %s has the staging path %s", req.VolumeID, req.Staging)
		}
		if p.published[at] == req.VolumeID {
			return nil
		}
		if p.publish != nil {
			return p.publish(at, req)
		}
		if err := errors.Join(os.MkdirAll(source, 0o755), os.Mkdir(at, 0o755)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := unix.Mount(source, at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("publish at %s: %w", at, err)
		}
		p.published[at] = req.VolumeID
		return nil
	})
}

func (p *plugin) NodeUnpublish(ctx context.Context, volume, target string) error {
	return p.call(ctx, "unpublish", volume, func() error {
		at := p.host(target)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.published[at] == "" {
			return nil
		}
		if err := unix.Unmount(at, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unpublish at %s: %w", at, err)
		}
		delete(p.published, at)
		return nil
	})
}

func (p *plugin) NodeUnstage(ctx context.Context, volume, staging string) error {
	return p.call(ctx, "unstage", volume, func() error {
		at := p.host(staging)
		p.mu.Lock()
		defer p.mu.Unlock()
		for target, v := range p.published {
			if v == volume && filepath.Base(target) == filepath.Base(at) {
				p.w.faults.Add("volume %s is unstaged, but published at %s", volume, target)
			}
		}
		if p.staged[at] == "" {
			return nil
		}
		if err := unix.Unmount(at, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unstage at %s: %w", at, err)
		}
		delete(p.staged, at)
		return nil
	})
}

func (p *plugin) NodeExpand(ctx context.Context, req clientcsi.ExpandRequest) (size int64, err error) {
	err = p.call(ctx, "expand", req.Volume, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.expanded = append(p.expanded, req)
		size = req.Capacity.RequiredBytes
		return nil
	})
	return size, err
}
