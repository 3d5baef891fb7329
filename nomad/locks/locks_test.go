package locks_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/locks"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// servers implements Variables.Apply.
type servers struct {
	mu       sync.Mutex
	released []string
	fail     error // error of the next call
}

func (s *servers) Call(_ context.Context, method string, req, _ any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := req.(*message.VariablesApplyRequest)
	if !ok || method != "Variables.Apply" || r.Op != variable.OpLockRelease || r.Var.Namespace != "default" || r.Namespace != "default" ||
		r.Var.LockID() == "" {
		return errors.New("unexpected request")
	}
	if err := s.fail; err != nil {
		s.fail = nil
		return err
	}
	s.released = append(s.released, r.Var.Path)
	return nil
}

func (s *servers) are(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.released)
	if !slices.Equal(s.released, want) {
		t.Errorf("released %v, want %v", s.released, want)
	}
}

// locked returns a variable with a lock, a TTL of 10 s and a delay of 5 s.
func locked(path string) *variable.Encrypted {
	return &variable.Encrypted{Metadata: variable.Metadata{Namespace: "default", Path: path,
		Lock: &variable.Lock{ID: "lock of " + path, TTL: 10 * time.Second, LockDelay: 5 * time.Second}}}
}

// lead runs fn with running timers that start with the variables.
func lead(t *testing.T, timers []*variable.Encrypted, fn func(t *testing.T, ts *locks.Timers, s *servers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &servers{}
		ts := locks.New(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- ts.Run(ctx, slices.Values(timers)) }()
		synctest.Wait()
		fn(t, ts, s)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || ts.Active() != 0 {
			t.Errorf("Run() = %v, %d locks remain", err, ts.Active())
		}
	})
}

func TestExpiredHolder(t *testing.T) {
	lead(t, nil, func(t *testing.T, ts *locks.Timers, s *servers) {
		a, b := &locked("a").Metadata, &locked("b").Metadata
		if !ts.Reset(a) || !ts.Reset(b) {
			t.Error("a new lock is expired")
		}
		time.Sleep(9 * time.Second)
		if !ts.Reset(b) {
			t.Error("a lock expired within its TTL")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if ts.Reset(a) {
			t.Error("a lock is renewed after its TTL")
		}
		time.Sleep(4*time.Second - time.Nanosecond)
		s.are(t)
		time.Sleep(time.Nanosecond)
		s.are(t, "a")
		if !ts.Reset(b) || ts.Active() != 1 {
			t.Errorf("%d locks are tracked, want b", ts.Active())
		}
		ts.Clear("lock of b")
		time.Sleep(time.Hour)
		s.are(t, "a")
	})
}

func TestNewLeader(t *testing.T) {
	lead(t, []*variable.Encrypted{locked("a"), locked("b"), {}}, func(t *testing.T, ts *locks.Timers, s *servers) {
		time.Sleep(9 * time.Second)
		ts.Reset(&locked("b").Metadata)
		time.Sleep(6 * time.Second)
		s.are(t, "a")
		time.Sleep(9 * time.Second)
		s.are(t, "a", "b")
	})
}

func TestRelease_Retry(t *testing.T) {
	lead(t, []*variable.Encrypted{locked("a")}, func(t *testing.T, ts *locks.Timers, s *servers) {
		s.mu.Lock()
		s.fail = apierror.ErrNoLeader
		s.mu.Unlock()
		time.Sleep(15 * time.Second)
		s.are(t)
		if ts.Reset(&locked("a").Metadata) {
			t.Error("a lock whose release failed is renewed")
		}
		time.Sleep(5 * time.Second)
		s.are(t, "a")
	})
}

func TestManyLocks(t *testing.T) {
	var many []*variable.Encrypted
	for range 500 {
		many = append(many, locked(nomad.NewID()))
	}
	lead(t, many, func(t *testing.T, ts *locks.Timers, s *servers) {
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if n := len(s.released); n != len(many) || ts.Active() != 0 {
			t.Errorf("%d of %d are released, %d remain", n, len(many), ts.Active())
		}
	})
}
