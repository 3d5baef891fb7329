package service_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// TestRemovalDuringABatch checks that a removal does not wait for a batch of other registrations.
func TestRemovalDuringABatch(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		r.Set("old", regs("old"))
		synctest.Wait()
		release := make(chan struct{})
		s.set(func() { s.hang, s.only = release, "ServiceRegistration.Upsert" })
		r.Set("batch", regs("a", "b"))
		synctest.Wait()
		start := time.Now()
		if !r.Remove(ctx, "old") || time.Since(start) != 0 {
			t.Errorf("Remove() during a batch took %v and left %q", time.Since(start), s.names())
		}
		close(release)
		synctest.Wait()
		if got := s.names(); got != "a b" {
			t.Errorf("registered %q", got)
		}
	})
}

// TestRemovalAfterAnOlderRegistration checks that the removal of a registration that is under way is sent after it, and
// before the next batch.
func TestRemovalAfterAnOlderRegistration(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		release := make(chan struct{})
		s.set(func() { s.hang, s.only = release, "ServiceRegistration.Upsert" })
		var many []string
		for i := range 128 {
			many = append(many, fmt.Sprintf("a%03d", i))
		}
		r.Set("first", regs(many...))
		synctest.Wait() // the batch is under way
		r.Set("second", regs("z"))
		removed := make(chan bool)
		go func() { removed <- r.Remove(ctx, "first") }()
		synctest.Wait()
		if s.calls != 0 {
			t.Errorf("%d calls have ended: a removal overtook its registration", s.calls)
		}
		close(release)
		if !<-removed {
			t.Error("Remove() did not wait for the removal")
		}
		synctest.Wait()
		if got := s.names(); got != "z" || r.Pending() != 0 {
			t.Errorf("registered %q, pending %d", got, r.Pending())
		}
	})
}

// TestRegistrationAfterAnOlderRemoval checks that a registration waits for the removal of the same ID.
func TestRegistrationAfterAnOlderRemoval(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		r.Set("w", regs("a"))
		synctest.Wait()
		release := make(chan struct{})
		s.set(func() { s.hang, s.only = release, "ServiceRegistration.DeleteByID" })
		r.Drop("w")
		synctest.Wait()
		calls := s.calls
		r.Set("w", regs("a"))
		r.Set("other", regs("b"))
		synctest.Wait()
		if s.calls != calls+1 || s.names() != "a b" {
			t.Errorf("%d calls ended and %q is registered: only b must be sent", s.calls-calls, s.names())
		}
		close(release)
		synctest.Wait()
		if got := s.names(); got != "a b" || r.Pending() != 0 {
			t.Errorf("registered %q, pending %d: want the registration that was set last", got, r.Pending())
		}
	})
}

// TestDenied checks that a registration that is denied for a day costs few calls and two lines of the log, and holds
// up neither other registrations nor the removal of replaced ones.
func TestDenied(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		r.Set("replaced", regs("r1"))
		synctest.Wait()
		s.set(func() { s.refuse, s.refusal = "bad", apierror.ErrPermissionDenied })
		r.Set("w", regs("bad"))
		r.Set("replaced", regs("r2"))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := s.names(); got != "r2" {
			t.Errorf("registered %q, want r2", got)
		}
		if s.refused < 280 || s.refused > 310 {
			t.Errorf("%d tries in a day, want one in 5 minutes", s.refused)
		}
		if n := strings.Count(s.log.String(), "\n"); n != 1 || !strings.Contains(s.log.String(), "service=bad") {
			t.Errorf("a denial is logged with %d lines:\n%s", n, s.log.String())
		}
		s.set(func() { s.refusal, s.refuse = nil, "" })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := s.names(); got != "bad r2" || r.Pending() != 0 {
			t.Errorf("registered %q, pending %d", got, r.Pending())
		}
		if n := strings.Count(s.log.String(), "\n"); n != 2 || !strings.Contains(s.log.String(), "accept") {
			t.Errorf("the end of a denial is logged with %d lines:\n%s", n, s.log.String())
		}
	})
}

// TestDeniedAfterAChange checks that a change, an urgent removal and Resync do not wait for the next try.
func TestDeniedAfterAChange(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		s.set(func() { s.refuse, s.refusal = "bad", apierror.ErrPermissionDenied })
		r.Set("w", regs("bad"))
		time.Sleep(time.Hour)
		s.set(func() { s.refuse = "" })
		r.Resync()
		synctest.Wait()
		if got := s.names(); got != "bad" {
			t.Errorf("registered %q after Resync()", got)
		}
		s.set(func() { s.refuse = "bad" })
		changed := regs("bad")
		changed[0].Tags = []string{"new"}
		r.Set("w", changed)
		time.Sleep(time.Hour)
		if !r.Remove(ctx, "w") || s.names() != "" {
			t.Errorf("registered %q after Remove()", s.names())
		}
	})
}
