package service_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// healthy returns the registration web with a status.
func healthy(status catalog.Status) []*catalog.Registration {
	out := regs("web")
	out[0].Status = status
	out[0].Checks = []*catalog.Check{{ID: "c", Status: status}}
	return out
}

func (s *servers) status() catalog.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.regs["web"]; r != nil {
		return r.Status
	}
	return "none"
}

func (s *servers) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// TestHealth checks that a change of health is sent at once, and an unchanged one never.
func TestHealth(t *testing.T) {
	world(t, func(_ context.Context, s *servers, r *service.Registrar) {
		r.Set("o", healthy(catalog.Critical))
		synctest.Wait()
		r.Set("o", healthy(catalog.Passing))
		synctest.Wait()
		if got := s.status(); got != catalog.Passing || s.called() != 2 {
			t.Errorf("status %s after %d calls, want passing after 2", got, s.called())
		}
		r.Set("o", healthy(catalog.Passing))
		synctest.Wait()
		if s.called() != 2 {
			t.Errorf("%d calls after the same health, want 2", s.called())
		}
	})
}

// TestHealth_Flapping checks that a flapping check causes one write in 5 s at most, that the last state arrives, and
// that other changes and the removal are not delayed.
func TestHealth_Flapping(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		both := []catalog.Status{catalog.Critical, catalog.Passing}
		r.Set("o", healthy(catalog.Critical))
		synctest.Wait()
		for i := range 601 { // ten minutes
			r.Set("o", healthy(both[i%2]))
			time.Sleep(time.Second)
		}
		if n := s.called(); n < 60 || n > 123 {
			t.Errorf("%d calls in 10 min, want 120 and the first ones at most", n)
		}
		r.Set("o", healthy(catalog.Warning))
		time.Sleep(6 * time.Second)
		if got := s.status(); got != catalog.Warning || r.Pending() != 0 {
			t.Errorf("status %s with %d pending after the last change, want warning", got, r.Pending())
		}
		for _, status := range append(both, both...) { // uses up the rate
			r.Set("o", healthy(status))
			synctest.Wait()
		}
		tagged := healthy(catalog.Critical)
		tagged[0].Tags = []string{"v2"}
		r.Set("o", tagged)
		synctest.Wait()
		if got := s.status(); got != catalog.Critical || r.Pending() != 0 {
			t.Errorf("status %s with %d pending after a change of tags, want critical at once", got, r.Pending())
		}
		r.Set("o", healthy(catalog.Passing))
		for range 4 {
			r.Set("o", healthy(catalog.Passing))
			r.Set("o", healthy(catalog.Critical))
			synctest.Wait()
		}
		start := time.Now()
		if !r.Remove(ctx, "o") || time.Since(start) != 0 || s.names() != "" {
			t.Errorf("Remove() took %v and left %q", time.Since(start), s.names())
		}
	})
}

// TestHealth_Back checks that a health which changes back before it is sent causes no call.
func TestHealth_Back(t *testing.T) {
	world(t, func(_ context.Context, s *servers, r *service.Registrar) {
		for _, status := range []catalog.Status{catalog.Critical, catalog.Passing, catalog.Critical} {
			r.Set("o", healthy(status))
			synctest.Wait()
		}
		calls := s.called()
		r.Set("o", healthy(catalog.Passing)) // waits
		synctest.Wait()
		r.Set("o", healthy(catalog.Critical))
		time.Sleep(time.Minute)
		if s.called() != calls || r.Pending() != 0 {
			t.Errorf("%d calls and %d pending, want %d and 0", s.called(), r.Pending(), calls)
		}
	})
}

// TestHealth_Resync checks that the servers get the health after a partition, also one that waits.
func TestHealth_Resync(t *testing.T) {
	world(t, func(_ context.Context, s *servers, r *service.Registrar) {
		for _, status := range []catalog.Status{catalog.Critical, catalog.Passing, catalog.Critical, catalog.Passing} {
			r.Set("o", healthy(status))
			synctest.Wait()
		}
		if got := s.status(); got != catalog.Critical {
			t.Fatalf("status %s: the last change did not wait", got)
		}
		s.set(func() { clear(s.regs) })
		r.Resync()
		synctest.Wait()
		if got := s.status(); got != catalog.Passing {
			t.Errorf("status %s after Resync, want passing", got)
		}
	})
}

// TestHealth_NotAccepted checks that health does not repeat what the servers refuse or deny.
func TestHealth_NotAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		limit int
	}{
		"refused": {apierror.Errorf(400, "invalid service registration"), 2},
		"denied":  {apierror.ErrPermissionDenied, 13},
	} {
		t.Run(name, func(t *testing.T) {
			world(t, func(_ context.Context, s *servers, r *service.Registrar) {
				s.set(func() { s.refuse, s.refusal = "web", tc.err })
				for i := range 240 { // four minutes
					r.Set("o", healthy([]catalog.Status{catalog.Critical, catalog.Passing}[i%2]))
					time.Sleep(time.Second)
				}
				if s.called() > tc.limit {
					t.Errorf("%d calls, want %d at most", s.called(), tc.limit)
				}
				s.set(func() { s.refuse = "" })
				time.Sleep(6 * time.Minute)
				r.Set("o", healthy(catalog.Warning))
				time.Sleep(5 * time.Minute)
				if got := s.status(); got != catalog.Warning {
					t.Errorf("status %s after the servers accept it again, want warning", got)
				}
			})
		})
	}
}
