package mounts_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/csi/mounts"
)

// life is the life of an allocation with a volume. It ends when the agent is killed.
func (w *world) life(a *agent, alloc string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	killed := w.killed
	go func() {
		select {
		case <-killed:
			cancel()
		case <-ctx.Done():
		}
	}()
	if _, err := a.mount(use(alloc, "data")); err != nil {
		return err
	}
	if err := a.End(alloc); err != nil {
		return err
	}
	return a.Settled(ctx, alloc)
}

// TestCrash kills the agent at each step of the life of a volume. The next agent continues with the allocation, finds that it has
// ended, or does not have it. It may be killed itself at the same step. Nothing remains in any case.
func TestCrash(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	if err := w.life(a, "a1"); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(a)
	steps := w.steps
	if len(steps) < 20 {
		t.Fatalf("a life has %d steps: %q", len(steps), steps)
	}
	next := map[string]func(t *testing.T, w *world, a *agent){
		"goes on": func(t *testing.T, w *world, a *agent) {
			if err := w.life(a, "a1"); err != nil {
				t.Errorf("the next agent: %v", err)
			}
		},
		"has ended": func(t *testing.T, _ *world, a *agent) { a.release(t, "a1") },
		"is gone": func(t *testing.T, _ *world, a *agent) {
			if err := a.Leftovers(func(alloc string) bool { return alloc == "a0" }); err != nil {
				t.Error(err)
			}
			a.release(t, "a1")
		},
	}
	for i, step := range steps {
		for name, again := range next {
			t.Run(fmt.Sprintf("%02d %s, and the allocation %s", i+1, step, name), func(t *testing.T) {
				w := newWorld(t)
				other := w.start()
				other.mustMount(t, use("a0", "data")) // uses the volume at the same time
				other.stop()
				w.kill(i+1, func(a *agent) { _ = w.life(a, "a1") }) // ends with errCrash
				w.kill(i+1, func(a *agent) { _ = a.End("a1") })
				a := w.start()
				again(t, w, a)
				if _, ok, err := a.Mounted(use("a0", "data")); !ok || err != nil {
					t.Errorf("the volume of another allocation: Mounted() = %t, %v", ok, err)
				}
				a.release(t, "a0")
				w.nothingLeft(a)
			})
		}
	}
}

// kill runs an agent that is killed at a step.
func (w *world) kill(step int, do func(a *agent)) {
	w.mu.Lock()
	w.steps, w.dead, w.crash, w.killed = nil, false, step, make(chan struct{})
	w.mu.Unlock()
	a := w.begin()
	do(a)
	w.mu.Lock()
	w.dead = true
	w.mu.Unlock()
	a.stop()
}

// TestReboot checks that a volume is mounted again after a reboot, also if another device has its number.
func TestReboot(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	a.mustMount(t, use("a1", "data"))
	a.stop()
	w.reboot()
	a = w.start()
	if _, ok, err := a.Mounted(use("a1", "data")); ok || err != nil {
		t.Errorf("Mounted() after a reboot = %t, %v", ok, err)
	}
	a.mustMount(t, use("a1", "data"))
	a.release(t, "a1")
	w.nothingLeft(a)
}

// reboot unmounts everything.
func (w *world) reboot() {
	w.end()
	w.boot = "boot-2"
	w.plugin.set(func(p *plugin) { p.staged, p.published = map[string]string{}, map[string]string{} })
}

// TestRebootWithoutPlugin checks that the volume of an allocation that ended with the machine needs no plugin.
func TestRebootWithoutPlugin(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	a.mustMount(t, use("a1", "data"))
	a.stop()
	w.reboot()
	w.plugin.set(func(p *plugin) { p.absent = true })
	a = w.start()
	a.release(t, "a1")
	w.nothingLeft(a)
}

// TestPluginGone checks that the claim stays while the plugin is away and the volume is mounted. An agent that has waited
// for Patience unmounts the volume itself.
func TestPluginGone(t *testing.T) {
	for name, back := range map[string]bool{"it returns": true, "it never returns": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start()
			a.mustMount(t, use("a1", "data"))
			w.plugin.set(func(p *plugin) { p.absent = true })
			if err := a.End("a1"); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				err := a.Detach(context.Background(), detachment("a1"))
				if err == nil || !strings.Contains(err.Error(), "plugin p1 for type csi-node not found") {
					t.Errorf("Detach() without a plugin = %v", err)
				}
			}
			if free := w.calls.freed(); len(free) > 0 {
				t.Errorf("claims %q are free, but the volume is mounted", free)
			}
			if back {
				w.plugin.set(func(p *plugin) { p.absent = false })
			} else {
				a.stop()
				a = w.start(func(c *mounts.Config) { c.Patience = 1 })
			}
			a.release(t, "a1")
			if free := w.calls.freed(); len(free) != 1 {
				t.Errorf("free claims = %q, want one", free)
			}
			w.plugin.set(func(p *plugin) { p.staged, p.published = map[string]string{}, map[string]string{} }) // the agent may have unmounted them
			w.nothingLeft(a)
		})
	}
}

// TestPluginLies checks that a mount remains nowhere if a plugin says that it has unmounted it and has not.
func TestPluginLies(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	a.mustMount(t, use("a1", "data"))
	w.plugin.set(func(p *plugin) { // it has forgotten all
		p.staged, p.published = map[string]string{}, map[string]string{}
	})
	a.release(t, "a1")
	w.nothingLeft(a)
}
