package service_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// servers keep registrations as the servers do. A call blocks or fails as the fields say.
type servers struct {
	mu      sync.Mutex
	regs    map[string]*catalog.Registration
	writes  int // of registrations that were not there
	calls   int
	biggest int
	down    bool
	hang    chan struct{} // closed to release the calls, nil for none
	only    string        // the method that hangs, "" for all
	refuse  string        // name of a service that is refused
	refusal error
	refused int             // calls that were refused
	log     strings.Builder // of the registrar

	unlisted error // of requests for the registrations of a node
}

func (s *servers) Call(ctx context.Context, method string, req, resp any) error {
	s.mu.Lock()
	hang := s.hang
	if s.only != "" && s.only != method {
		hang = nil
	}
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.down {
		return errors.New("no servers")
	}
	switch req := req.(type) {
	case *message.ServiceRegistrationUpsertRequest:
		s.biggest = max(s.biggest, len(req.Services))
		for _, r := range req.Services {
			if r.ServiceName == s.refuse {
				s.refused++
				return s.refusal
			}
		}
		for _, r := range req.Services {
			if old := s.regs[r.ID]; old == nil || !slices.Equal(old.Tags, r.Tags) {
				s.writes++
			}
			s.regs[r.ID] = r
		}
	case *message.ServiceRegistrationDeleteByIDRequest:
		if s.regs[req.ID] == nil || s.regs[req.ID].Namespace != req.Namespace {
			return errors.New("service registration not found")
		}
		delete(s.regs, req.ID)
	case *message.ServiceInstancesRequest:
		for _, r := range s.regs {
			if r.NodeID == req.NodeID && (req.Namespace == "*" || req.Namespace == r.Namespace) {
				list := &resp.(*message.ServiceInstancesResponse).Instances
				*list = append(*list, &catalog.Instance{Registration: *r})
			}
		}
		return s.unlisted
	default:
		return fmt.Errorf("unknown method %s", method)
	}
	return nil
}

func (s *servers) names() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for id := range s.regs {
		out = append(out, id)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (s *servers) set(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit()
}

func regs(names ...string) []*catalog.Registration {
	var out []*catalog.Registration
	for _, n := range names {
		out = append(out, &catalog.Registration{ID: n, ServiceName: n, Namespace: "prod"})
	}
	return out
}

// world starts a registrar. Everything in it is in a synctest bubble.
func world(t *testing.T, test func(ctx context.Context, s *servers, r *service.Registrar)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &servers{regs: map[string]*catalog.Registration{}}
		r := service.New(s, slog.New(slog.NewTextHandler(&s.log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		test(ctx, s, r)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	})
}

func TestSetAndRemove(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		r.Set("w", regs("a", "b"))
		r.Set("v", regs("c"))
		synctest.Wait()
		if got := s.names(); got != "a b c" {
			t.Errorf("registered %q", got)
		}
		r.Set("w", regs("b", "d")) // in place: d is new, a is not in it
		synctest.Wait()
		if got := s.names(); got != "b c d" {
			t.Errorf("after the update %q", got)
		}
		calls := s.calls
		r.Set("w", regs("b", "d"))
		synctest.Wait()
		if s.calls != calls {
			t.Errorf("an unchanged list needs %d calls", s.calls-calls)
		}
		if !r.Remove(ctx, "w") || s.names() != "c" {
			t.Errorf("Remove() returned before the servers had removed: %q", s.names())
		}
		if !r.Remove(ctx, "w") || !r.Remove(ctx, "unknown") {
			t.Error("a second Remove() must have nothing to do")
		}
		s.set(func() { delete(s.regs, "c") })
		if !r.Remove(ctx, "v") {
			t.Error("a registration that the servers do not have counts as removed")
		}
		if r.Pending() != 0 {
			t.Errorf("pending = %d", r.Pending())
		}
	})
}

func TestBatches(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		for i := range 1000 {
			r.Set(fmt.Sprint(i), regs(fmt.Sprintf("s%d", i)))
		}
		synctest.Wait()
		if len(s.regs) != 1000 || s.biggest > 128 || s.calls > 200 {
			t.Errorf("%d registered with %d calls, the biggest of %d", len(s.regs), s.calls, s.biggest)
		}
	})
}

// TestPartition checks that a kill waits for one second at most, and that everything is sent once afterwards.
func TestPartition(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		r.Set("old", regs("old"))
		r.Set("stays", regs("stays"))
		synctest.Wait()
		s.set(func() { s.down = true })
		start := time.Now()
		if r.Remove(ctx, "old") {
			t.Error("Remove() without servers reports success")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Remove() took %v, want the budget of 1s", took)
		}
		for range 100 {
			r.Set("new", regs("new"))
		}
		time.Sleep(time.Hour)
		s.set(func() { s.down, s.writes = false, 0 })
		r.Resync()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := s.names(); got != "new stays" || s.writes != 1 {
			t.Errorf("after the partition: %q with %d writes, want new and stays, and one write", got, s.writes)
		}
	})
}

func TestResyncRestoresLostRegistrations(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		r.Set("w", regs("a", "b"))
		synctest.Wait()
		s.set(func() { clear(s.regs) })
		r.Resync()
		synctest.Wait()
		if got := s.names(); got != "a b" || s.writes != 4 {
			t.Errorf("registered %q with %d writes", got, s.writes)
		}
	})
}

// TestRemoveOfARegistrationUnderWay checks that an upsert that is under way does not survive its removal.
func TestRemoveOfARegistrationUnderWay(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		release := make(chan struct{})
		s.set(func() { s.hang = release })
		r.Set("w", regs("a"))
		synctest.Wait()
		removed := make(chan bool)
		go func() { removed <- r.Remove(ctx, "w") }()
		synctest.Wait()
		s.set(func() { s.hang = nil })
		close(release)
		if !<-removed || s.names() != "" {
			t.Errorf("registered %q after Remove()", s.names())
		}
	})
}

// TestSetDuringRemoval checks that a restart of a task registers again, whatever the removal does.
func TestSetDuringRemoval(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		r.Set("w", regs("a"))
		synctest.Wait()
		release := make(chan struct{})
		s.set(func() { s.hang = release })
		r.Drop("w")
		synctest.Wait()
		r.Set("w", regs("a"))
		s.set(func() { s.hang = nil })
		close(release)
		synctest.Wait()
		if got := s.names(); got != "a" {
			t.Errorf("registered %q, want the registration that was set last", got)
		}
		if !r.Remove(ctx, "w") || s.names() != "" {
			t.Errorf("registered %q after Remove()", s.names())
		}
	})
}

// TestReplacedOnlyAfterRegistered checks that an old registration stays while the new one cannot be sent.
func TestReplacedOnlyAfterRegistered(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		r.Set("w", regs("a"))
		synctest.Wait()
		s.set(func() { s.down = true })
		r.Set("w", regs("b"))
		synctest.Wait()
		if got := s.names(); got != "a" {
			t.Errorf("registered %q, want a", got)
		}
		s.set(func() { s.down = false })
		time.Sleep(time.Second)
		synctest.Wait()
		if got := s.names(); got != "b" {
			t.Errorf("registered %q, want b", got)
		}
	})
}

func TestOneRefusedRegistration(t *testing.T) {
	world(t, func(ctx context.Context, s *servers, r *service.Registrar) {
		for i, tc := range []struct {
			refusal error
			pending int
		}{
			{errors.New("invalid service registration address"), 0},
			{apierror.UnknownAlloc("a1"), 0},
			{apierror.Errorf(400, "it has ended"), 0},
			{apierror.ErrPermissionDenied, 1}, // perhaps the allocation is not known to the server yet
		} {
			s.set(func() { s.refuse, s.refusal = "bad", tc.refusal; clear(s.regs) })
			r.Set(fmt.Sprint(i), regs("a", "bad", "z"))
			synctest.Wait()
			if got := s.names(); got != "a z" || r.Pending() != tc.pending {
				t.Errorf("%v: registered %q, pending %d", tc.refusal, got, r.Pending())
			}
			r.Remove(ctx, fmt.Sprint(i))
		}
	})
}
