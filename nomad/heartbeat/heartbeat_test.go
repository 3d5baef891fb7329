package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/heartbeat"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// servers implements Node.UpdateStatus.
type servers struct {
	mu   sync.Mutex
	down []string
	fail error         // error of the next call
	hang chan struct{} // calls wait until it is closed; nil for no wait
}

func (s *servers) Call(_ context.Context, method string, req, _ any) error {
	if s.hang != nil {
		<-s.hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := req.(*message.NodeUpdateStatusRequest)
	if !ok || method != "Node.UpdateStatus" || r.Status != nomad.NodeStatusDown || r.NodeEvent == nil || r.UpdatedAt == 0 {
		return errors.New("unexpected request")
	}
	if err := s.fail; err != nil {
		s.fail = nil
		return err
	}
	s.down = append(s.down, r.NodeID)
	return nil
}

func (s *servers) reported() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.down)
	return slices.Clone(s.down)
}

// lead runs fn with running timers that start with the nodes.
func lead(t *testing.T, cfg heartbeat.Config, nodes []*nomad.Node, fn func(ts *heartbeat.Timers, s *servers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &servers{}
		cfg.RPC, cfg.Log = s, slog.New(slog.DiscardHandler)
		ts := heartbeat.New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		ts.Lead(nodes)
		go func() { done <- ts.Run(ctx) }()
		synctest.Wait()
		fn(ts, s)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
		if n := ts.Active(); n != 0 {
			t.Errorf("%d timers remain", n)
		}
	})
}

func TestMissedHeartbeats(t *testing.T) {
	lead(t, heartbeat.Config{}, nil, func(ts *heartbeat.Timers, s *servers) {
		ttl := ts.Reset("n1")
		if ttl < 10*time.Second || ttl >= 20*time.Second {
			t.Errorf("Reset() = %v, want 10 to 20 s", ttl)
		}
		time.Sleep(ttl)
		ttl = ts.Reset("n1")
		time.Sleep(ttl + 10*time.Second - time.Nanosecond)
		if got := s.reported(); len(got) != 0 {
			t.Errorf("reported %v within its time", got)
		}
		time.Sleep(time.Nanosecond)
		if got := s.reported(); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("reported %v, want n1", got)
		}
		time.Sleep(time.Hour)
		if got := s.reported(); len(got) != 1 {
			t.Errorf("reported %v, want n1 once", got)
		}
	})
}

// slots is the number of concurrent reports.
const slots = 16

// A node whose report waits for a slot is not reported if it sends a heartbeat or is deleted first. The slots are taken
// by reports that hang.
func TestReport_NoSlot(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*heartbeat.Timers)
		reported  bool
	}{
		"silence":   {func(*heartbeat.Timers) {}, true},
		"heartbeat": {func(ts *heartbeat.Timers) { ts.Reset("late") }, false},
		"deletion":  {func(ts *heartbeat.Timers) { ts.Clear("late") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			lead(t, heartbeat.Config{}, nil, func(ts *heartbeat.Timers, s *servers) {
				s.hang = make(chan struct{})
				for i := range slots {
					ts.Reset(fmt.Sprintf("hangs %02d", i))
				}
				time.Sleep(30 * time.Second) // the longest TTL and the grace
				ts.Reset("late")
				time.Sleep(30 * time.Second)
				synctest.Wait()
				c.meanwhile(ts)
				close(s.hang)
				if got := slices.Contains(s.reported(), "late"); got != c.reported {
					t.Errorf("reported = %v, want %v", got, c.reported)
				}
			})
		})
	}
}

// TestSeparateDeadlines has one node send heartbeats and others stop.
func TestSeparateDeadlines(t *testing.T) {
	lead(t, heartbeat.Config{}, nil, func(ts *heartbeat.Timers, s *servers) {
		for _, id := range []string{"alive", "silent 1", "silent 2"} {
			ts.Reset(id)
		}
		for range 6 {
			time.Sleep(10 * time.Second)
			ts.Reset("alive")
		}
		if got := s.reported(); !slices.Equal(got, []string{"silent 1", "silent 2"}) {
			t.Errorf("reported %v, want the silent ones", got)
		}
		time.Sleep(19 * time.Second)
		if got := s.reported(); len(got) != 2 {
			t.Errorf("reported %v, want no others", got)
		}
	})
}

func TestTTLGrowsWithNodes(t *testing.T) {
	lead(t, heartbeat.Config{MaxPerSecond: 2}, nil, func(ts *heartbeat.Timers, s *servers) {
		for range 100 {
			ts.Reset(nomad.NewID())
		}
		if ttl := ts.Reset("n1"); ttl < 50*time.Second || ttl >= 102*time.Second {
			t.Errorf("Reset() with 100 nodes at 2 a second = %v, want 50 to 101 s", ttl)
		}
	})
}

func TestFailover(t *testing.T) {
	ready, down := nomad.NewID(), nomad.NewID()
	nodes := []*nomad.Node{{ID: ready, Status: nomad.NodeStatusReady}, {ID: down, Status: nomad.NodeStatusDown}}
	lead(t, heartbeat.Config{}, nodes, func(ts *heartbeat.Timers, s *servers) {
		if n := ts.Active(); n != 1 {
			t.Errorf("%d nodes are counted, want only the one that is not down (%s)", n, down)
		}
		time.Sleep(300*time.Second - time.Nanosecond)
		if got := s.reported(); len(got) != 0 {
			t.Errorf("reported %v within the time after a failover", got)
		}
		time.Sleep(time.Nanosecond)
		if got := s.reported(); !slices.Equal(got, []string{ready}) {
			t.Errorf("reported %v, want %s", got, ready)
		}
	})
}

func TestClear(t *testing.T) {
	lead(t, heartbeat.Config{}, nil, func(ts *heartbeat.Timers, s *servers) {
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			ts.Reset(id)
		}
		for _, id := range []string{"b", "d", "x"} {
			ts.Clear(id)
		}
		time.Sleep(time.Minute)
		if got := s.reported(); !slices.Equal(got, []string{"a", "c", "e"}) {
			t.Errorf("reported %v, want a, c and e", got)
		}
	})
}

func TestReport_Retry(t *testing.T) {
	for name, tt := range map[string]struct {
		fail error
		beat bool
		want []string
	}{
		"no leader":      {apierror.ErrNoLeader, false, []string{"n1"}},
		"beat meanwhile": {apierror.ErrNoLeader, true, nil},
		"node is gone":   {apierror.ErrNodeNotFound, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lead(t, heartbeat.Config{}, nil, func(ts *heartbeat.Timers, s *servers) {
				s.fail = tt.fail
				ttl := ts.Reset("n1")
				time.Sleep(ttl + 10*time.Second)
				synctest.Wait()
				if tt.beat {
					ts.Reset("n1")
				}
				time.Sleep(5 * time.Second)
				if got := s.reported(); !slices.Equal(got, tt.want) {
					t.Errorf("reported %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestNotLeading(t *testing.T) {
	ts := heartbeat.New(heartbeat.Config{})
	if ttl := ts.Reset("n1"); ttl != 10*time.Second || ts.Active() != 0 {
		t.Errorf("Reset() = %v with %d counted, want 10 s and none", ttl, ts.Active())
	}
}

// A node whose first heartbeat arrives before the goroutine of Run has a timer, too.
func TestHeartbeatBeforeRun(t *testing.T) {
	ts := heartbeat.New(heartbeat.Config{})
	ts.Lead(nil)
	ttl := ts.Reset("n1")
	if in := ts.UntilMissed("n1"); in <= ttl || ts.Active() != 1 {
		t.Errorf("the node is silent in %v, its TTL is %v; %d counted", in, ttl, ts.Active())
	}
}

// A node within its TTL is not silent. After a failover it counts as silent much sooner than it is
// marked as down.
func TestOverdue(t *testing.T) {
	nodes := []*nomad.Node{{ID: "known", Status: nomad.NodeStatusReady}, {ID: "down", Status: nomad.NodeStatusDown}}
	lead(t, heartbeat.Config{}, nodes, func(ts *heartbeat.Timers, s *servers) {
		ttl := ts.Reset("n1")
		for node, want := range map[string]time.Duration{"known": 30 * time.Second, "down": 0, "n1": ttl + 10*time.Second} {
			if got := ts.UntilMissed(node); got != want {
				t.Errorf("Silent(%s) = %v, want %v", node, got, want)
			}
		}
		time.Sleep(30 * time.Second)
		if known, beat := ts.UntilMissed("known"), ts.UntilMissed("n1"); known != 0 || beat != 0 {
			t.Errorf("after 30 s a node is silent in %v, another in %v", known, beat)
		}
		if got := s.reported(); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("reported %v", got)
		}
		if ttl := ts.Reset("known"); ts.UntilMissed("known") != ttl+10*time.Second {
			t.Error("a heartbeat is ignored")
		}
	})
	if (heartbeat.New(heartbeat.Config{})).UntilMissed("known") == 0 {
		t.Error("Silent() is not zero on a follower")
	}
}

func TestEarliestIdentity(t *testing.T) {
	lead(t, heartbeat.Config{}, []*nomad.Node{{ID: "unheard", Status: nomad.NodeStatusReady}}, func(ts *heartbeat.Timers, s *servers) {
		now := time.Now()
		ts.SetIdentityExpiry("stranger", now)
		if got := ts.Earliest(); !got.IsZero() {
			t.Errorf("Earliest() = %v without a heartbeat", got)
		}
		for id, in := range map[string]time.Duration{"late": 3 * time.Hour, "first": time.Hour, "later": 2 * time.Hour} {
			ts.Reset(id)
			ts.SetIdentityExpiry(id, now.Add(in))
		}
		if got := ts.Earliest(); !got.Equal(now.Add(time.Hour)) {
			t.Errorf("Earliest() is in %v, want an hour", got.Sub(now))
		}
		ts.Reset("first")
		ts.SetIdentityExpiry("first", now.Add(24*time.Hour))
		ts.Clear("later")
		if got := ts.Earliest(); !got.Equal(now.Add(3 * time.Hour)) {
			t.Errorf("after a renewal Earliest() is in %v, want three hours", got.Sub(now))
		}
	})
}
