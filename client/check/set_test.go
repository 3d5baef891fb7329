package check_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// store keeps results and counts the writes.
type store struct {
	mu     sync.Mutex
	kept   map[string]message.CheckStatus // by allocation and check
	writes int
}

func (s *store) PutCheckResult(alloc string, r *message.CheckQueryResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[alloc+"_"+string(r.ID)] = r.Status
	s.writes++
}

// count returns the number of writes.
func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func (s *store) DeleteCheckResults(alloc string, ids []message.CheckID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.kept, alloc+"_"+string(id))
	}
}

func newSet(stored map[string][]*message.CheckQueryResult) (*check.Set, *store) {
	s := &store{kept: map[string]message.CheckStatus{}}
	return check.New(check.Config{Store: s, Log: slog.New(slog.DiscardHandler)}, stored), s
}

func script(id string) *check.Target {
	return &check.Target{ID: message.CheckID(id), Name: id, Type: nomad.ServiceCheckScript, In: "t", Command: []string{id},
		Interval: 10 * time.Second, Timeout: 2 * time.Second}
}

// exit returns an Exec whose scripts exit with *code.
func exit(code *atomic.Int32, runs *atomic.Int32) check.Exec {
	return func(context.Context, []string) ([]byte, *drivers.ExitResult, error) {
		runs.Add(1)
		return nil, &drivers.ExitResult{ExitCode: int(code.Load())}, nil
	}
}

func status(s *check.Set, alloc, id string) message.CheckStatus {
	if r := s.Results(alloc)[message.CheckID(id)]; r != nil {
		return r.Status
	}
	return "none"
}

// watched runs test while the checks of an allocation are watched, in a synctest bubble.
func watched(t *testing.T, stored map[string][]*message.CheckQueryResult, test func(s *check.Set, kept *store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, kept := newSet(stored)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { s.Watch(ctx, "a1", ""); close(done) }()
		synctest.Wait()
		test(s, kept)
		cancel()
		<-done
	})
}

func TestWatch(t *testing.T) {
	watched(t, nil, func(s *check.Set, kept *store) {
		var code, runs atomic.Int32
		s.Attach("a1", "t", exit(&code, &runs))
		s.Observe("a1", []*check.Target{script("c1"), script("c2")})
		if r := s.Results("a1")["c1"]; r == nil || r.Status != message.CheckPending || r.Output != "nomad: waiting to run" {
			t.Errorf("before the first run: %+v", r)
		}
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		if runs.Load() != 0 || kept.count() != 0 {
			t.Errorf("%d runs and %d writes before half of the interval", runs.Load(), kept.count())
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if runs.Load() != 2 || status(s, "a1", "c1") != message.CheckSuccess {
			t.Errorf("%d runs and %s after one interval", runs.Load(), status(s, "a1", "c1"))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := runs.Load(); n != 2+2*360 || kept.count() != 2 {
			t.Errorf("%d runs and %d writes in an hour, want 722 and 2", n, kept.count())
		}
		code.Store(2)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if status(s, "a1", "c1") != message.CheckFailure || kept.count() != 4 {
			t.Errorf("%s with %d writes after a failure", status(s, "a1", "c1"), kept.count())
		}
		s.Observe("a1", []*check.Target{script("c2"), script("c3")})
		synctest.Wait()
		if status(s, "a1", "c1") != "none" || status(s, "a1", "c2") != message.CheckFailure || status(s, "a1", "c3") != message.CheckPending {
			t.Errorf("after the update: %v", s.Results("a1"))
		}
		s.Forget("a1")
		before := runs.Load()
		time.Sleep(time.Hour)
		if runs.Load() != before || len(s.Results("a1")) != 0 || len(kept.kept) != 0 {
			t.Errorf("after Forget(): %d runs, %v, stored %v", runs.Load()-before, s.Results("a1"), kept.kept)
		}
	})
}

// TestSpread checks that checks which begin together do not run together.
func TestSpread(t *testing.T) {
	watched(t, nil, func(s *check.Set, _ *store) {
		seen := map[time.Time]int{}
		var mu sync.Mutex
		s.Attach("a1", "t", func(context.Context, []string) ([]byte, *drivers.ExitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			seen[time.Now().Truncate(time.Second)]++
			return nil, &drivers.ExitResult{}, nil
		})
		var all []*check.Target
		for i := range 500 {
			all = append(all, script(fmt.Sprint(i)))
		}
		s.Observe("a1", all)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for at, n := range seen {
			if n > 200 {
				t.Errorf("%d of 500 runs in the second of %v", n, at)
			}
		}
		if len(seen) < 5 {
			t.Errorf("runs in %d seconds only", len(seen))
		}
	})
}

// TestSlowChecksAreBounded checks that checks which hang use a bounded number of runs.
func TestSlowChecksAreBounded(t *testing.T) {
	watched(t, nil, func(s *check.Set, _ *store) {
		var now, most atomic.Int32
		s.Attach("a1", "t", func(ctx context.Context, _ []string) ([]byte, *drivers.ExitResult, error) {
			most.Store(max(most.Load(), now.Add(1)))
			<-ctx.Done()
			now.Add(-1)
			return nil, nil, ctx.Err()
		})
		var all []*check.Target
		for i := range 100 {
			all = append(all, script(fmt.Sprint(i)))
		}
		s.Observe("a1", all)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if most.Load() != 8 {
			t.Errorf("%d concurrent runs of one allocation, want 8", most.Load())
		}
		if r := s.Results("a1")["7"]; r.Status != message.CheckFailure || r.Output != "nomad: the script did not end within 2s" {
			t.Errorf("result = %+v", r)
		}
	})
}

// TestScriptOfATaskThatDoesNotRun checks that such a script is pending before the first run, and fails after it.
func TestScriptOfATaskThatDoesNotRun(t *testing.T) {
	watched(t, nil, func(s *check.Set, _ *store) {
		var code, runs atomic.Int32
		s.Observe("a1", []*check.Target{script("c1")})
		time.Sleep(time.Minute)
		if got := status(s, "a1", "c1"); got != message.CheckPending {
			t.Errorf("before the task has started: %s", got)
		}
		s.Attach("a1", "t", exit(&code, &runs))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := status(s, "a1", "c1"); got != message.CheckSuccess {
			t.Errorf("while it runs: %s", got)
		}
		s.Detach("a1", "t")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := s.Results("a1")["c1"]; got.Status != message.CheckFailure || got.Output != "nomad: the task does not run" {
			t.Errorf("after its end: %+v", got)
		}
		s.Forget("a1")
	})
}

// TestRestored checks that a restarted agent has the results of the previous one, and does not replace them by stubs.
func TestRestored(t *testing.T) {
	old := &message.CheckQueryResult{ID: "c1", Status: message.CheckFailure, Output: "bad"}
	watched(t, map[string][]*message.CheckQueryResult{"a1": {old, {ID: "vanished"}}}, func(s *check.Set, kept *store) {
		s.Observe("a1", []*check.Target{script("c1")})
		if got := s.Results("a1"); got["c1"] != old || len(got) != 1 {
			t.Errorf("results = %v", got)
		}
		s.Forget("a1")
	})
}

// TestUpdateInPlace checks that a change that is not part of the ID is used.
func TestUpdateInPlace(t *testing.T) {
	watched(t, nil, func(s *check.Set, _ *store) {
		var last atomic.Value
		s.Attach("a1", "t", func(_ context.Context, command []string) ([]byte, *drivers.ExitResult, error) {
			last.Store(command[0])
			return nil, &drivers.ExitResult{}, nil
		})
		s.Observe("a1", []*check.Target{script("c1")})
		time.Sleep(10 * time.Second)
		next := script("c1")
		next.Command = []string{"new"}
		s.Observe("a1", []*check.Target{next})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if last.Load() != "new" {
			t.Errorf("ran %v", last.Load())
		}
		s.Forget("a1")
	})
}

func TestRestarts(t *testing.T) {
	const s, f, p, none = message.CheckSuccess, message.CheckFailure, message.CheckPending, message.CheckStatus("")
	// Results of successive seconds from the start of the watch. The interval of the check is 3 s.
	for _, tc := range []struct {
		name    string
		limit   int
		grace   time.Duration
		results []message.CheckStatus
		due     int // second, 0 for never
	}{
		{"limit 1 restarts at once", 1, 2 * time.Second, []message.CheckStatus{s, s, f}, 2},
		{"limit 2 waits for one interval", 2, time.Second, []message.CheckStatus{s, f, f, f, f, f}, 4},
		{"success in between", 2, time.Second, []message.CheckStatus{s, f, f, s, f, f, f, f}, 7},
		{"grace", 1, 4 * time.Second, []message.CheckStatus{f, f, f, f, f}, 4},
		{"default grace", 1, 0, []message.CheckStatus{f, f}, 1},
		{"pending is unhealthy", 1, 2 * time.Second, []message.CheckStatus{p, p, p}, 2},
		{"healthy", 1, time.Second, []message.CheckStatus{s, s, s, s}, 0},
		{"no result", 1, time.Second, []message.CheckStatus{none, none, none}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			target := &check.Target{ID: "c1", Name: "up", Task: "web", Interval: 3 * time.Second,
				Restart: &nomad.CheckRestart{Limit: tc.limit, Grace: tc.grace}}
			other := &check.Target{ID: "c2", Name: "other", Task: "web", Interval: 3 * time.Second}
			var r check.Restarts
			r.Watch("web", []*check.Target{target, other}, start)
			due := 0
			for i, status := range tc.results {
				results := map[message.CheckID]*message.CheckQueryResult{"c2": {Status: f}}
				if status != none {
					results["c1"] = &message.CheckQueryResult{Status: status}
				}
				for _, d := range r.Poll(results, start.Add(time.Duration(i)*time.Second)) {
					if due != 0 {
						t.Error("a second restart without a new watch")
					}
					due = i
					if d.Task != "web" || d.Reason != `healthcheck: check "up" unhealthy` {
						t.Errorf("due = %+v", d)
					}
				}
			}
			if due != tc.due {
				t.Errorf("restart after %d s, want %d", due, tc.due)
			}
		})
	}
}

func TestRestartsOfOneWorkload(t *testing.T) {
	start := time.Now()
	of := func(id, task string) *check.Target {
		return &check.Target{ID: message.CheckID(id), Name: id, Task: task, Interval: time.Second, Restart: &nomad.CheckRestart{Limit: 1}}
	}
	all := []*check.Target{of("a", ""), of("b", ""), of("c", "t"), of("d", "u")}
	var r check.Restarts
	for _, task := range []string{"", "t", "u"} {
		r.Watch(task, all, start)
	}
	r.Unwatch("u")
	bad := &message.CheckQueryResult{Status: message.CheckFailure}
	results := map[message.CheckID]*message.CheckQueryResult{"a": bad, "b": bad, "c": bad, "d": bad}
	got := map[string]int{}
	for i := range 5 {
		for _, d := range r.Poll(results, start.Add(time.Duration(i)*time.Second)) {
			got[d.Task]++
		}
	}
	if len(got) != 2 || got[""] != 1 || got["t"] != 1 {
		t.Errorf("restarts = %v, want one of the group and one of t", got)
	}
	r.Watch("t", all, start.Add(time.Minute))
	if due := r.Poll(results, start.Add(time.Minute+time.Second)); len(due) != 1 || due[0].Task != "t" {
		t.Errorf("after a new watch: %v", due)
	}
}

// Checks that an update adds run, also after an update without checks during which the task was restarted.
func TestChecksAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSet(nil)
		var code, runs atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		s.Observe("a1", []*check.Target{script("c1")})
		s.Attach("a1", "t", exit(&code, &runs))
		ended := make(chan struct{})
		go func() { s.Watch(ctx, "a1", ""); close(ended) }()
		synctest.Wait()
		s.Observe("a1", nil)
		s.Detach("a1", "t")
		s.Attach("a1", "t", exit(&code, &runs))
		s.Observe("a1", []*check.Target{script("c1")})
		time.Sleep(time.Minute)
		synctest.Wait()
		if runs.Load() == 0 {
			t.Error("the check that was added again has not run")
		}
		s.Forget("a1")
		s.Detach("a1", "t")
		cancel()
		<-ended
	})
}
