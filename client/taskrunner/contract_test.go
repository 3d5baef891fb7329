package taskrunner

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// probe implements all six interfaces and records the calls. Tests can set a function per call.
type probe struct {
	name string

	mu    sync.Mutex
	calls []string
	pre   []*taskhook.TaskPrestartRequest
	posts []*taskhook.TaskPoststartRequest
	stops []*taskhook.TaskStopRequest

	prestart func(context.Context, *taskhook.TaskPrestartResponse) error
	preKill  func(context.Context)
	exited   func(context.Context)
	update   func(context.Context)
}

func (p *probe) Name() string { return p.name }

func (p *probe) note(call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
}

// seen returns the calls so far.
func (p *probe) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *probe) Prestart(ctx context.Context, req *taskhook.TaskPrestartRequest, resp *taskhook.TaskPrestartResponse) error {
	p.note("prestart")
	p.mu.Lock()
	p.pre = append(p.pre, req)
	p.mu.Unlock()
	if p.prestart == nil {
		return nil
	}
	return p.prestart(ctx, resp)
}

func (p *probe) Poststart(_ context.Context, req *taskhook.TaskPoststartRequest, _ *taskhook.TaskPoststartResponse) error {
	p.note("poststart")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts = append(p.posts, req)
	return nil
}

func (p *probe) PreKill(ctx context.Context, _ *taskhook.TaskPreKillRequest, _ *taskhook.TaskPreKillResponse) error {
	p.note("pre_kill")
	if p.preKill != nil {
		p.preKill(ctx)
	}
	return nil
}

func (p *probe) Exited(ctx context.Context, _ *taskhook.TaskExitedRequest, _ *taskhook.TaskExitedResponse) error {
	p.note("exited")
	if p.exited != nil {
		p.exited(ctx)
	}
	return nil
}

func (p *probe) Update(ctx context.Context, _ *taskhook.TaskUpdateRequest, _ *taskhook.TaskUpdateResponse) error {
	p.note("update")
	if p.update != nil {
		p.update(ctx)
	}
	return nil
}

func (p *probe) Stop(_ context.Context, req *taskhook.TaskStopRequest, _ *taskhook.TaskStopResponse) error {
	p.note("stop")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops = append(p.stops, req)
	return nil
}

// keen is the mock driver with device support. It records its task configurations.
type keen struct {
	*mock.Driver
	devices bool
	network *drivers.TaskNetwork // of each started task
	signal  error                // of SignalTask, if not nil
	mu      sync.Mutex
	given   []*drivers.TaskConfig
}

func (d *keen) Capabilities() drivers.Capabilities {
	c := d.Driver.Capabilities()
	c.Devices = d.devices
	return c
}

func (d *keen) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	d.mu.Lock()
	d.given = append(d.given, cfg)
	d.mu.Unlock()
	handle, err := d.Driver.StartTask(ctx, cfg)
	if err == nil {
		handle.Network = d.network
	}
	return handle, err
}

func (d *keen) SignalTask(id, signal string) error {
	if d.signal != nil {
		return d.signal
	}
	return d.Driver.SignalTask(id, signal)
}

// house is the environment of a task.
type house struct {
	t      *testing.T
	db     *state.DB
	dir    *allocdir.Dir
	alloc  *nomad.Allocation
	driver *keen
	deps   taskhook.Deps // of the hooks, besides the users
}

func newHouse(t *testing.T, config map[string]any) *house {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := state.Open(state.Config{Dir: t.TempDir(), NoSync: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	task := &nomad.Task{Name: "main", Driver: mock.Name, Config: config, KillTimeout: time.Second,
		RestartPolicy: &nomad.RestartPolicy{Attempts: 1, Interval: time.Hour, Mode: nomad.RestartPolicyModeFail}}
	alloc := &nomad.Allocation{ID: nomad.NewID(), JobID: "j", TaskGroup: "g", Namespace: "default",
		SignedIdentities: map[string]string{"main": "token-of-main"},
		AllocatedResources: &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{
			"main": {Memory: nomad.AllocatedMemoryResources{MemoryMB: 77}}}},
		Job: &nomad.Job{ID: "j", Name: "j", Type: nomad.JobTypeService, Namespace: "default",
			TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{task}}}}}
	root := t.TempDir()
	dir, err := allocdir.Build(root, alloc.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dir.Close()
		if err := allocdir.Destroy(root, alloc.ID); err != nil {
			t.Error(err)
		}
	})
	return &house{t: t, db: db, dir: dir, alloc: alloc, driver: &keen{Driver: mock.New(mock.Name, log), devices: true}}
}

// runner returns a runner with further hooks: first before the usual ones, last after them.
func (h *house) runner(first, last hook.Hook) *Runner {
	h.t.Helper()
	users, err := driverset.NewUsers(80000, 80999)
	if err != nil {
		h.t.Fatal(err)
	}
	log, deps := slog.New(slog.DiscardHandler), h.deps
	deps.Users = users
	r := New(Config{Alloc: h.alloc, Task: h.alloc.Job.TaskGroups[0].Tasks[0], Node: &nomad.Node{ID: nomad.NewID()},
		Driver: h.driver, Store: h.db, Dir: h.dir, Hooks: deps, Changed: func() {}, Log: log,
		Identities: identity.New(identity.Config{Alloc: h.alloc, Store: h.db, Log: log})})
	if first != nil {
		r.hooks.Hooks = append([]hook.Hook{first}, r.hooks.Hooks...)
	}
	if last != nil {
		r.hooks.Hooks = append(r.hooks.Hooks, last)
	}
	return r
}

// restored returns a runner with the stored state.
func (h *house) restored(first, last hook.Hook) *Runner {
	h.t.Helper()
	r := h.runner(first, last)
	tasks, err := h.db.Tasks(h.alloc.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Restore(tasks["main"])
	return r
}

// begin runs a task in the background.
func begin(t *testing.T, r *Runner) (shutdown context.CancelFunc, ended <-chan error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return cancel, done
}

var killEvent = &nomad.TaskEvent{Type: nomad.TaskKilling}

// A signal to a process that has just ended fails like one to a task that does not run, and has no event.
func TestSignal_Ended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]any{"run_for": "1h"})
		r := h.runner(nil, nil)
		_, ended := begin(t, r)
		signal := func() error {
			return r.Signal(&nomad.TaskEvent{Type: nomad.TaskSignaling, TaskSignal: "SIGHUP"}, "SIGHUP")
		}
		sent := func() bool {
			return slices.ContainsFunc(r.State().Events, func(e *nomad.TaskEvent) bool { return e.Type == nomad.TaskSignaling })
		}
		for _, c := range []struct {
			err        error
			notRunning bool
		}{{drivers.ErrTaskNotFound, true}, {errors.New("x"), false}} {
			h.driver.signal = c.err
			if err := signal(); err == nil || errors.Is(err, ErrNotRunning) != c.notRunning || sent() {
				t.Errorf("Signal() = %v after %v of the driver, event %t", err, c.err, sent())
			}
		}
		h.driver.signal = nil
		if err := signal(); err != nil || !sent() {
			t.Errorf("Signal() = %v, event %t", err, sent())
		}
		if err := r.Kill(t.Context(), codec.Copy(killEvent)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

// Every hook is called at its moment, in this order, also around a restart.
func TestHookMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := newHouse(t, map[string]any{"run_for": "1h"}), &probe{name: "probe"}
		r := h.runner(nil, p)
		_, ended := begin(t, r)
		if err := r.Restart(t.Context(), &nomad.TaskEvent{Type: nomad.TaskRestartSignal}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.Update(h.alloc, h.alloc.Job.TaskGroups[0].Tasks[0])
		r.RunUpdateHooks(t.Context())
		if err := r.Kill(t.Context(), codec.Copy(killEvent)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		want := []string{"prestart", "poststart", "pre_kill", "exited", "prestart", "poststart", "update", "pre_kill", "exited", "stop"}
		if got := p.seen(); !slices.Equal(got, want) {
			t.Errorf("calls = %v, want %v", got, want)
		}
		req := p.pre[0]
		if req.Task == nil || req.Resources.Memory.MemoryMB != 77 || req.NomadToken.Reveal() != "token-of-main" ||
			req.Dir == nil || req.Env == nil || req.Alloc == nil || req.Running {
			t.Errorf("prestart request = %+v", req)
		}
		if post := p.posts[0]; post.Env == nil || post.Stats == nil || post.Exec != nil || post.Network != nil {
			t.Errorf("poststart request = %+v", post)
		}
	})
}

// Mounts, devices, files and environment of a hook reach the driver at every start. That
// includes hooks that are done, and starts by the next agent.
func TestHookAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]any{"run_for": "1h"})
		p := &probe{name: "probe", prestart: func(_ context.Context, resp *taskhook.TaskPrestartResponse) error {
			resp.Env = map[string]string{"K": "v"}
			resp.Mounts = []drivers.Mount{{TaskPath: "/a", HostPath: "/b"}}
			resp.Devices = []drivers.Device{{HostPath: "/dev/x"}}
			resp.Files = []drivers.HostFile{{Name: "f", Target: "/etc/f"}}
			resp.State, resp.Done = map[string]string{"s": "1"}, true
			return nil
		}}
		r := h.runner(nil, p)
		shutdown, ended := begin(t, r)
		restart := func(r *Runner) {
			t.Helper()
			if err := r.Restart(t.Context(), &nomad.TaskEvent{Type: nomad.TaskRestartSignal}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		restart(r)
		shutdown()
		<-ended
		next := &probe{name: "probe"}
		r = h.restored(nil, next)
		_, ended = begin(t, r)
		restart(r)
		if err := r.Kill(t.Context(), codec.Copy(killEvent)); err != nil {
			t.Fatal(err)
		}
		<-ended
		if len(h.driver.given) != 3 {
			t.Fatalf("%d starts, want 3", len(h.driver.given))
		}
		for i, cfg := range h.driver.given {
			if !slices.Equal(cfg.Devices, []drivers.Device{{HostPath: "/dev/x"}}) || len(cfg.Mounts) != 1 || len(cfg.Files) != 1 ||
				cfg.Env["K"] != "v" {
				t.Errorf("start %d: devices %v, mounts %v, files %v, K=%q", i, cfg.Devices, cfg.Mounts, cfg.Files, cfg.Env["K"])
			}
		}
		if slices.Contains(next.seen(), "prestart") || next.stops[0].State["s"] != "1" {
			t.Errorf("calls = %v, state at the stop = %v; want no prestart of a hook that is done", next.seen(), next.stops[0].State)
		}
	})
}

// The network that a driver gave a task reaches the hooks, also of the next agent.
func TestDriverNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]any{"run_for": "1h"})
		h.driver.network = &drivers.TaskNetwork{IP: "192.0.2.7", PortMap: map[string]int{"http": 80}, AutoAdvertise: true}
		first := &probe{name: "probe"}
		r := h.runner(nil, first)
		shutdown, ended := begin(t, r)
		shutdown()
		<-ended
		next := &probe{name: "probe"}
		r = h.restored(nil, next)
		_, ended = begin(t, r)
		for name, p := range map[string]*probe{"first": first, "next": next} {
			if len(p.posts) != 1 || !reflect.DeepEqual(p.posts[0].Network, h.driver.network) {
				t.Errorf("%s agent: poststart requests %+v, want the network", name, p.posts)
			}
		}
		h.driver.network = nil
		if err := r.Restart(t.Context(), &nomad.TaskEvent{Type: nomad.TaskRestartSignal}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := next.posts[len(next.posts)-1].Network; n != nil {
			t.Errorf("after a start without a network: %+v", n)
		}
		if err := r.Kill(t.Context(), codec.Copy(killEvent)); err != nil {
			t.Fatal(err)
		}
		<-ended
	})
}

// A driver without device support fails the start.
func TestDevicesAreNotDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]any{"run_for": "1h"})
		h.driver.devices = false
		r := h.runner(nil, &probe{name: "probe", prestart: func(_ context.Context, resp *taskhook.TaskPrestartResponse) error {
			resp.Devices = []drivers.Device{{HostPath: "/dev/x"}}
			return nil
		}})
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := r.State(); !s.Failed || len(h.driver.given) != 0 {
			t.Errorf("failed %t after %d starts, want it failed without one", s.Failed, len(h.driver.given))
		}
	})
}

// A hook that fails for a running task stops neither the other hooks nor the task. The hooks'
// state is stored.
func TestFailedHookOfARunningTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]any{"run_for": "1h"})
		shutdown, ended := begin(t, h.runner(nil, nil))
		shutdown()
		<-ended
		bad := &probe{name: "bad", prestart: func(context.Context, *taskhook.TaskPrestartResponse) error { return errors.New("broken") }}
		var lives context.Context
		good := &probe{name: "good", prestart: func(_ context.Context, resp *taskhook.TaskPrestartResponse) error {
			resp.State = map[string]string{"n": "1"}
			resp.Background = func(ctx context.Context) { lives = ctx; <-ctx.Done() }
			return nil
		}}
		r := h.restored(bad, good)
		shutdown, ended = begin(t, r)
		synctest.Wait()
		if got := good.seen(); !slices.Equal(got, []string{"prestart", "poststart"}) || !good.pre[0].Running || good.pre[0].Dir == nil {
			t.Errorf("calls of the later hook = %v", got)
		}
		if lives == nil || lives.Err() != nil {
			t.Error("the background function of the later hook does not run")
		}
		if s := r.State(); s.State != nomad.TaskStateRunning || !slices.ContainsFunc(s.Events, func(e *nomad.TaskEvent) bool {
			return e.Type == nomad.TaskHookMessage && e.Message == "hook bad: broken"
		}) {
			t.Errorf("state = %+v, want an event about the failed hook", s)
		}
		shutdown()
		<-ended
		last := &probe{name: "good"}
		r = h.restored(nil, last)
		_, ended = begin(t, r)
		if got := last.pre[0].PreviousState["n"]; got != "1" {
			t.Errorf("previous state = %q, want that of the previous agent", got)
		}
		if err := r.Kill(t.Context(), codec.Copy(killEvent)); err != nil {
			t.Fatal(err)
		}
		<-ended
	})
}

// A kill cancels the context of each hook method.
func TestKillEndsContexts(t *testing.T) {
	for _, moment := range []string{"prestart", "pre_kill", "exited", "update"} {
		t.Run(moment, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, p := newHouse(t, map[string]any{"run_for": "1h"}), &probe{name: "probe"}
				wait := func(ctx context.Context) { <-ctx.Done() }
				switch moment {
				case "prestart":
					p.prestart = func(ctx context.Context, _ *taskhook.TaskPrestartResponse) error { wait(ctx); return ctx.Err() }
				case "pre_kill":
					first := true
					p.preKill = func(ctx context.Context) { // a kill follows during the restart
						if first {
							first = false
							wait(ctx)
						}
					}
				case "exited":
					h.alloc.Job.TaskGroups[0].Tasks[0].Config = map[string]any{"run_for": "1s"}
					p.exited = wait
				case "update":
					p.update = wait
				}
				r := h.runner(nil, p)
				_, ended := begin(t, r)
				switch moment {
				case "pre_kill":
					go r.Restart(t.Context(), &nomad.TaskEvent{Type: nomad.TaskRestartSignal}) //nolint:errcheck // interrupted by the kill
				case "exited":
					time.Sleep(2 * time.Second)
				case "update":
					go r.RunUpdateHooks(t.Context())
				}
				synctest.Wait()
				if got := p.seen(); !slices.Contains(got, moment) {
					t.Fatalf("calls = %v, want %s running", got, moment)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := r.Kill(ctx, codec.Copy(killEvent)); err != nil {
					t.Fatalf("Kill() = %v: the context of the hook was not cancelled", err)
				}
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				// PreKill runs concurrently with the loop, which may end first.
				got := slices.DeleteFunc(p.seen(), func(call string) bool { return call == "pre_kill" })
				if len(got) == 0 || got[len(got)-1] != "stop" {
					t.Errorf("calls = %v, want stop at the end", got)
				}
			})
		})
	}
}

// Stop is not called when the agent shuts down. It is called if the task is killed before it
// ever started.
func TestStopHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := newHouse(t, map[string]any{"run_for": "1h"}), &probe{name: "probe"}
		shutdown, ended := begin(t, h.runner(nil, p))
		shutdown()
		<-ended
		if slices.Contains(p.seen(), "stop") {
			t.Errorf("calls at a shutdown = %v, want no stop", p.seen())
		}
		gated := newHouse(t, map[string]any{"run_for": "1h"})
		p = &probe{name: "probe"}
		r := gated.runner(nil, p)
		r.cfg.Gate = make(chan struct{})
		_, ended = begin(t, r)
		if err := r.Kill(t.Context(), codec.Copy(killEvent)); err != nil {
			t.Fatal(err)
		}
		<-ended
		// The pre-kill hooks run concurrently with the run loop, so the order is open.
		if got := slices.Sorted(slices.Values(p.seen())); !slices.Equal(got, []string{"pre_kill", "stop"}) {
			t.Errorf("calls of a task that never started = %v, want pre_kill and stop", got)
		}
		time.Sleep(time.Hour) // the first task ends
	})
}
