package claims_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// release calls Release in the background.
func (w *world) release(volume, alloc string) <-chan error {
	out := make(chan error, 1)
	go func() { out <- w.w.Release(w.t.Context(), "default", volume, alloc) }()
	return out
}

// TestRelease checks the answers of Release.
func TestRelease(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *world)
		volume string
		want   string // in the error
		freed  bool
	}{
		"ended":          {func(w *world) { w.end("a") }, "v", "", true},
		"being released": {func(w *world) { stepTo(w, csi.ClaimNodeDetached) }, "v", "", true},
		"no such volume": {func(*world) {}, "w", "", false},
		"running":        {func(*world) {}, "v", `allocation a has not ended, so its claim on volume "v" is not released`, false},
		"unknown":        {func(w *world) { w.client("a", "unknown") }, "v", "allocation a has not ended", false},
		"the plugin fails": {func(w *world) { w.end("a"); w.plugins.set(failing("detach", "storage is full")) }, "v",
			"detach from node n1: storage is full", false},
		"fails with secret": {func(w *world) { w.end("a"); w.plugins.set(failing("detach", "no hunter2")) }, "v", "no [REDACTED]", false},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				w.claim("v", "a", "n1")
				defer w.run()()
				c.before(w)
				err := <-w.release(c.volume, "a")
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("Release() = %v, want %q", err, c.want)
				}
				if freed := w.held("v", "a") == nil; freed != c.freed {
					t.Errorf("freed %t, want %t", freed, c.freed)
				}
			})
		})
	}
}

// TestRelease_AtOnce checks that a release does not wait for the delay of failed attempts, and has one attempt with others.
func TestRelease_AtOnce(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		w.plugins.set(failing("unmount", "device is busy"))
		w.end("a")
		defer w.run()()
		time.Sleep(10 * time.Minute)
		before := w.plugins.count("unmount")
		begun := time.Now()
		for range 3 {
			if err := <-w.release("v", "a"); err == nil || !strings.Contains(err.Error(), "device is busy") {
				t.Errorf("Release() = %v", err)
			}
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("three failed releases took %v", took)
		}
		if n := w.plugins.count("unmount") - before; n < 3 || n > 4 {
			t.Errorf("three releases made %d attempts", n)
		}
		w.plugins.set(nil)
		var all []<-chan error
		for range 10 {
			all = append(all, w.release("v", "a"))
		}
		for _, done := range all {
			if err := <-done; err != nil {
				t.Errorf("Release() = %v", err)
			}
		}
		if n := w.plugins.count("detach"); n != 1 {
			t.Errorf("ten releases detached %d times", n)
		}
	})
}

// TestRelease_DuringAttempt checks that a release waits for the attempt in progress, which hangs, and then makes its own.
func TestRelease_DuringAttempt(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		w.plugins.set(hanging("unmount"))
		w.end("a")
		defer w.run()()
		time.Sleep(time.Minute)
		done := w.release("v", "a")
		synctest.Wait()
		w.plugins.set(nil)
		begun := time.Now()
		if err := <-done; err != nil {
			t.Errorf("Release() = %v", err)
		}
		if took := time.Since(begun); took > 62*time.Second {
			t.Errorf("the release took %v", took)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		w.claim("v", "b", "n1")
		w.plugins.set(hanging("unmount"))
		w.end("b")
		if err := w.w.Release(ctx, "default", "v", "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Release() with a deadline = %v", err)
		}
	})
}

// TestRelease_Leader checks that Release waits for a leader that begins, and ends with the leadership.
func TestRelease_Leader(t *testing.T) {
	test(t, func(w *world) {
		w.claim("v", "a", "n1")
		w.end("a")
		begun := time.Now()
		if err := <-w.release("v", "a"); !errors.Is(err, apierror.ErrNoLeader) || time.Since(begun) != 5*time.Second {
			t.Errorf("Release() of a follower = %v after %v", err, time.Since(begun))
		}
		done := w.release("v", "a")
		time.Sleep(time.Second)
		stop := w.run()
		if err := <-done; err != nil {
			t.Errorf("Release() of a new leader = %v", err)
		}
		w.claim("v", "b", "n1")
		w.plugins.set(hanging("unmount"))
		w.end("b")
		attempt := w.release("v", "b")
		time.Sleep(time.Second)
		waiting := w.release("v", "b")
		time.Sleep(time.Second)
		stop()
		for _, done := range []<-chan error{attempt, waiting} {
			if err := <-done; !errors.Is(err, apierror.ErrNoLeader) {
				t.Errorf("Release() at the end of the leadership = %v", err)
			}
		}
		w.plugins.set(nil)
		defer w.run()() // leads again
		if err := <-w.release("v", "b"); err != nil {
			t.Errorf("Release() of a leader that leads again = %v", err)
		}
	})
}

// TestNewLeader kills the leader before and after each log entry and call. The next one completes the release, and no step
// precedes another.
func TestNewLeader(t *testing.T) {
	const entries, calls = 3, 2
	for kill := range 2 * (entries + calls) {
		test(t, func(w *world) {
			w.claim("v", "a", "n1")
			w.end("a")
			killed := make(chan struct{})
			seen := 0
			event := func(ctx context.Context) error { // before and after each entry and call
				if seen++; seen == kill+1 {
					close(killed)
				}
				if seen > kill {
					<-ctx.Done() // the old leader hangs until it ends
					return ctx.Err()
				}
				return nil
			}
			w.Before(func(ctx context.Context, typ message.CommandType) error {
				if typ != message.CSIVolumeClaimRequestType {
					return nil
				}
				return event(ctx)
			})
			w.after = event
			w.plugins.set(func(ctx context.Context, _ string) error { return errors.Join(event(ctx), event(ctx)) })
			stop := w.run()
			<-killed
			stop()
			w.Before(nil)
			w.after = nil
			w.plugins.set(nil)
			w.renew()
			defer w.run()()
			time.Sleep(100 * time.Millisecond)
			w.wantFreed("v", "a")
			if n := w.plugins.count("unmount"); n < 1 || n > 2 {
				t.Errorf("killed at %d: unmounted %d times", kill, n)
			}
			if n := w.plugins.count("detach"); n < 1 || n > 2 {
				t.Errorf("killed at %d: detached %d times", kill, n)
			}
			inOrder(t, w.plugins.calls)
		})
	}
}

// inOrder fails the test if an unmount follows a detachment.
func inOrder(t *testing.T, calls []string) {
	t.Helper()
	detached := false
	for _, c := range calls {
		if strings.HasPrefix(c, "unmount") && detached {
			t.Errorf("unmounted after the detachment: %q", calls)
		}
		detached = detached || strings.HasPrefix(c, "detach")
	}
}

// TestRelease_Answered checks that calls of Release for several claims of a volume are answered when the volume, a claim or the
// leadership ends before their attempts.
func TestRelease_Answered(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(w *world, stop func())
		want error // of the claim without an attempt
	}{
		"the volume ends": {func(w *world, _ func()) {
			w.Must(w.t, message.CSIVolumeDeregisterRequestType, &message.CSIVolumeDeregisterRequest{VolumeIDs: []string{"v"}, Force: true,
				WriteRequest: message.WriteRequest{Namespace: "default"}})
		}, nil},
		"the claims end": {func(w *world, _ func()) {
			for _, alloc := range []string{"a", "b"} {
				for _, s := range []csi.ClaimState{csi.ClaimUnpublishing, csi.ClaimNodeDetached, csi.ClaimReadyToFree} {
					w.Must(w.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: "v", AllocationID: alloc,
						State: s, Claim: csi.ClaimWrite, WriteRequest: message.WriteRequest{Namespace: "default"}})
				}
			}
			w.claim("v", "c", "n3") // so that the volume still has a claim
			w.end("c")
		}, nil},
		"the leadership ends": {func(_ *world, stop func()) { stop() }, apierror.ErrNoLeader},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				for i, alloc := range []string{"a", "b"} {
					w.claim("v", alloc, []string{"n1", "n2"}[i])
					w.end(alloc)
				}
				w.plugins.set(failing("unmount", "device is busy"))
				stop := w.run()
				defer stop()
				time.Sleep(10 * time.Minute)
				for n := w.plugins.count(""); w.plugins.count("") < n+2; { // so that the next look is of the calls below
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				w.plugins.set(hanging("unmount"))
				touch(w) // a look, and then a pause
				synctest.Wait()
				var calls []<-chan error
				for _, alloc := range []string{"a", "b"} {
					calls = append(calls, w.release("v", alloc))
				}
				time.Sleep(time.Minute) // the attempt of one of them hangs, and the other one waits
				c.end(w, stop)
				time.Sleep(3 * time.Minute)
				for i, done := range calls {
					select {
					case err := <-done:
						if i == 1 && !errors.Is(err, c.want) {
							t.Errorf("Release() = %v, want %v", err, c.want)
						}
					default:
						t.Errorf("call %d is not answered", i)
					}
				}
			})
		})
	}
}
