package claims_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestRetry_Delays checks that a step that fails is repeated after 1 s to 1 min, and that each text is written once.
func TestRetry_Delays(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		w.plugins.set(failing("unmount", "device is busy"))
		w.end("a")
		defer w.run()()
		time.Sleep(10 * time.Minute)
		// Delays of 1, 2, 4, ... 60 s, each at least half: at least 6 until the first minute, then one per 30 to 60 s.
		if n := w.plugins.count("unmount"); n < 14 || n > 27 {
			t.Errorf("%d attempts in 10 minutes", n)
		}
		if got := w.waitsWritten(); len(got) != 1 {
			t.Errorf("the log has the texts %q, want one", got)
		}
		since := w.held("v", "a").Since
		w.plugins.set(failing("unmount", "device is very busy"))
		time.Sleep(2 * time.Minute)
		if got := w.waitsWritten(); len(got) != 2 {
			t.Errorf("the log has the texts %q, want two", got)
		}
		w.wantWaits("v", "a", csi.ClaimUnpublishing, "device is very busy")
		if now := w.held("v", "a").Since; now != since {
			t.Errorf("the state began at %d, and after another text at %d", since, now)
		}
		w.plugins.set(nil)
		time.Sleep(62 * time.Second)
		w.wantFreed("v", "a")
		calls := w.plugins.count("")
		time.Sleep(time.Hour)
		if n := w.plugins.count("") - calls; n != 0 {
			t.Errorf("%d calls after the claim was freed", n)
		}
	})
}

// TestRetry_Change checks that a change of what a step depends on repeats it within about a second.
func TestRetry_Change(t *testing.T) {
	for name, c := range map[string]struct {
		before, change func(w *world)
	}{
		"the node is down":    {func(*world) {}, nodeIs(nomad.NodeStatusDown)},
		"the node is removed": {func(*world) {}, removeNode},
		"the plugin is back": {func(w *world) { w.withoutPlugin("n1") },
			func(w *world) { w.plugins.set(nil); w.plugin("n1", csi.PluginMonolith) }},
		"the volume is touched": {func(*world) {}, func(w *world) { w.plugins.set(nil); touch(w) }},
		"another claim ends": {func(w *world) { w.claim("v", "b", "n2") }, func(w *world) {
			w.plugins.set(failing("unmount v of a", "hidden"))
			w.end("b")
			time.Sleep(1100 * time.Millisecond)
			w.wantFreed("v", "b")
			w.plugins.set(nil)
			touch(w)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				w.claim("v", "a", "n1")
				c.before(w)
				w.end("a")
				w.plugins.set(failing("unmount", "no answer"))
				defer w.run()()
				time.Sleep(10 * time.Minute) // the delay is 30 s or more
				if c := w.held("v", "a"); c == nil || c.State != csi.ClaimUnpublishing {
					t.Fatalf("the claim is %+v", c)
				}
				last := w.plugins.count("unmount v of a")
				for w.plugins.count("unmount v of a") == last { // so that the next one is far away
					time.Sleep(time.Second)
				}
				time.Sleep(2 * time.Second)
				c.change(w)
				time.Sleep(1200 * time.Millisecond)
				w.wantFreed("v", "a")
			})
		})
	}
}

// touch writes the log entry of core job csi-volume-claim-gc.
func touch(w *world) {
	w.Must(w.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: "v", Claim: csi.ClaimGC,
		WriteRequest: message.WriteRequest{Namespace: "default"}})
}

// TestRetry_NoLoop checks that changes that a step does not depend on, and many that it does, repeat it at most each second.
func TestRetry_NoLoop(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		w.plugins.set(failing("unmount", "device is busy"))
		w.end("a")
		defer w.run()()
		time.Sleep(5 * time.Minute)
		before := w.plugins.count("unmount")
		for range 500 { // 50 s
			time.Sleep(100 * time.Millisecond)
			w.node("n2", nomad.NodeStatusReady)
			w.end("a")
		}
		if n := w.plugins.count("unmount") - before; n > 2 {
			t.Errorf("%d attempts after unrelated changes, want at most 2", n)
		}
		before = w.plugins.count("unmount")
		for range 500 {
			time.Sleep(100 * time.Millisecond)
			touch(w)
		}
		if n := w.plugins.count("unmount") - before; n > 51 {
			t.Errorf("%d attempts in 50 s", n)
		}
	})
}

// TestRetry_Texts checks that the log entry of a wait is not a change that repeats the step.
func TestRetry_Texts(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		var n atomic.Int64
		w.plugins.set(func(context.Context, string) error { return fmt.Errorf("request %d failed", n.Add(1)) })
		w.end("a")
		defer w.run()()
		time.Sleep(5 * time.Minute)
		before := n.Load()
		time.Sleep(10 * time.Minute)
		if got := n.Load() - before; got < 10 || got > 20 {
			t.Errorf("%d attempts in 10 minutes, want one per 30 to 60 s", got)
		}
		if got := len(w.waitsWritten()); got != int(n.Load()) {
			t.Errorf("the log has %d texts after %d attempts", got, n.Load())
		}
	})
}

// TestHanging checks that plugins that do not answer delay no other volume, also if they are more than the attempts at once.
func TestHanging(t *testing.T) {
	for _, hung := range []int{1, 200} {
		test(t, func(w *world) {
			w.plugins.set(hanging("unmount hung"))
			for i := range hung {
				id := fmt.Sprintf("hung-%03d", i)
				w.claim(id, id, "n1")
				w.end(id)
			}
			defer w.run()()
			time.Sleep(time.Second)
			for i := range 100 {
				id := fmt.Sprintf("v-%03d", i)
				w.claim(id, id, "n1")
				w.end(id)
			}
			limit := time.Second
			if hung > 1 {
				limit = 16 * time.Second // 64 attempts leave the limit each 5 s
			}
			time.Sleep(limit)
			for i := range 100 {
				w.wantFreed(fmt.Sprintf("v-%03d", i), fmt.Sprintf("v-%03d", i))
			}
			for i := range hung {
				w.wantWaits(fmt.Sprintf("hung-%03d", i), fmt.Sprintf("hung-%03d", i), csi.ClaimUnpublishing, "")
			}
			w.plugins.set(nil)
			time.Sleep(4 * time.Minute)
			w.wantFreed("hung-000", "hung-000")
		})
	}
}

// The end of an allocation is seen at once, also if another claim of its volume waits for long, and if nothing else changes.
func TestRetry_OtherEnds(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		w.claim("v", "b", "n2")
		w.claim("v", "c", "n3")
		w.claim("idle", "d", "n1")
		w.plugins.set(failing("unmount v of a", "device is busy"))
		w.end("a")
		defer w.run()()
		time.Sleep(20 * time.Minute)
		w.wantWaits("v", "a", csi.ClaimUnpublishing, "device is busy")
		for volume, alloc := range map[string]string{"v": "b", "idle": "d"} {
			w.end(alloc)
			time.Sleep(time.Second)
			w.wantFreed(volume, alloc)
		}
		w.wantWaits("v", "c", csi.ClaimTaken, "")
	})
}

// TestHanging_OtherClaims checks that a claim that never succeeds delays no other claim of its volume for long.
func TestHanging_OtherClaims(t *testing.T) {
	test(t, func(w *world) {
		w.plugins.set(hanging("unmount v of hung"))
		for i := range 20 {
			w.claim("v", fmt.Sprintf("hung-%02d", i), "n1")
			w.end(fmt.Sprintf("hung-%02d", i))
		}
		defer w.run()()
		time.Sleep(time.Hour)
		w.claim("v", "z", "n2")
		w.end("z")
		time.Sleep(2*time.Minute + time.Second) // the call in progress
		w.wantFreed("v", "z")
	})
}

// TestMany checks the time and the goroutines of 500 volumes of a node that is lost.
func TestMany(t *testing.T) {
	test(t, func(w *world) {
		for i := range 500 {
			id := fmt.Sprintf("v-%03d", i)
			w.claim(id, id, "n1")
		}
		w.plugins.set(func(context.Context, string) error { time.Sleep(100 * time.Millisecond); return nil })
		before := runtime.NumGoroutine()
		defer w.run()()
		time.Sleep(time.Minute)
		idle := runtime.NumGoroutine() - before
		if w.plugins.count("") != 0 {
			t.Errorf("%d calls while all allocations run", w.plugins.count(""))
		}
		var lost []*nomad.Allocation
		for i := range 500 {
			lost = append(lost, &nomad.Allocation{ID: fmt.Sprintf("v-%03d", i), NodeID: "n1", ClientStatus: nomad.AllocClientStatusLost})
		}
		w.node("n1", nomad.NodeStatusDown)
		w.Must(t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: lost})
		synctest.Wait()
		busy := runtime.NumGoroutine() - before
		time.Sleep(5 * time.Second)
		for i := range 500 {
			w.wantFreed(fmt.Sprintf("v-%03d", i), fmt.Sprintf("v-%03d", i))
		}
		if w.plugins.most > 64 || w.plugins.most < 32 {
			t.Errorf("%d calls at once, want at most 64", w.plugins.most)
		}
		if idle > 40 || busy > 40+64*2 {
			t.Errorf("%d goroutines wait, %d work", idle, busy)
		}
		if n := w.plugins.count(""); n != 500 {
			t.Errorf("%d calls for 500 volumes", n)
		}
	})
}

// TestPluginGone checks that claims are freed when the plugin does not exist for 5 minutes without a break.
func TestPluginGone(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		w.claim("w", "b", "n1")
		w.plugins.set(failing("", "plugin not found"))
		w.end("a")
		w.purgePlugin()
		defer w.run()()
		time.Sleep(4 * time.Minute)
		w.wantWaits("v", "a", csi.ClaimUnpublishing, `plugin "ebs" does not exist any more: run its job again`)
		w.plugin("n2", csi.PluginMonolith) // for a moment
		time.Sleep(100 * time.Millisecond)
		w.purgePlugin()
		time.Sleep(4 * time.Minute)
		w.wantWaits("v", "a", csi.ClaimUnpublishing, "does not exist any more")
		time.Sleep(2*time.Minute + 2*time.Second)
		w.wantFreed("v", "a")
		if n := w.plugins.count("detach"); n != 0 {
			t.Errorf("%d calls of a controller that does not exist", n)
		}
		w.wantWaits("w", "b", csi.ClaimTaken, "") // its allocation runs
	})
}

// TestDeregistered checks that the end of a volume ends its releases.
func TestDeregistered(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		w.plugins.set(hanging("unmount"))
		w.end("a")
		defer w.run()()
		time.Sleep(time.Minute) // during the call
		w.Must(t, message.CSIVolumeDeregisterRequestType, &message.CSIVolumeDeregisterRequest{VolumeIDs: []string{"v"}, Force: true,
			WriteRequest: message.WriteRequest{Namespace: "default"}})
		w.claim("v", "b", "n2") // a new volume with the same ID
		time.Sleep(time.Hour)
		w.wantWaits("v", "b", csi.ClaimTaken, "")
		if calls := w.plugins.calls; !slices.Equal(calls, []string{unmount}) {
			t.Errorf("calls are %q", calls)
		}
	})
}
