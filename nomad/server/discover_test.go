package server_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// Servers that know only the address of one of them bootstrap a cluster, and stop searching. A server skips itself, and a
// search that fails is repeated.
func TestDiscover(t *testing.T) {
	var mu sync.Mutex
	nobody := testnet.Listen(t)
	addrs := []string{nobody.Addr().String()}
	nobody.Close()
	failed, searches := false, 0
	find := func(context.Context) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		if searches++; !failed {
			failed = true
			return nil, errors.New("no answer")
		}
		return slices.Clone(addrs), nil
	}
	var all []servertest.Member
	for _, name := range []string{"a", "b", "c"} {
		m := servertest.StartMember(t, name, func(c *server.Config) { c.BootstrapExpect, c.Discover = 3, find })
		all = append(all, m)
		mu.Lock()
		addrs = append(addrs, m.GossipAddr())
		mu.Unlock()
	}
	servertest.WaitVoters(t, all, 3)
	mu.Lock()
	defer mu.Unlock()
	if searches < 3 {
		t.Errorf("%d searches", searches)
	}
}

// TestDiscover_Need checks when a server searches.
func TestDiscover_Need(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	need := server.NewNeed(start)
	for i, c := range []struct {
		after  time.Duration
		s      server.Standing
		search bool
	}{
		{0, server.NewStanding(true, false, 1, 3), true},
		{time.Second, server.NewStanding(true, false, 2, 3), true},
		{time.Second, server.NewStanding(true, false, 3, 3), false},
		{time.Second, server.NewStanding(true, false, 1, 0), true},
		{time.Second, server.NewStanding(true, false, 2, 0), false},
		{10 * time.Second, server.NewStanding(false, true, 3, 3), false},
		{24 * time.Second, server.NewStanding(false, false, 1, 3), false},
		{25 * time.Second, server.NewStanding(false, false, 1, 3), true},
		{60 * time.Second, server.NewStanding(false, false, 1, 3), false},
		{93 * time.Second, server.NewStanding(false, false, 1, 3), true},
		{94 * time.Second, server.NewStanding(false, true, 3, 3), false},
		{109 * time.Second, server.NewStanding(false, false, 3, 3), true},
	} {
		if got := need.Arises(c.s, at(c.after)); got != c.search {
			t.Errorf("%d: search after %v: %v", i, c.after, got)
		}
	}
}
