package server

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Times of the search for other servers.
const (
	discoverEvery  = 3 * time.Second
	discoverAgain  = 9 * time.Second  // after a failure
	discoverWithin = 30 * time.Second // of one search
	dialWithin     = time.Second      // of a server that is found
	leaderlessFor  = 15 * time.Second // before a server of a cluster searches
	leaderlessPoll = 45 * time.Second // plus up to half of it
)

// discover searches for servers with Config.Discover and joins them, while this server needs others.
func (s *Server) discover(ctx context.Context) error {
	if s.alone() || s.cfg.Discover == nil {
		return nil
	}
	need, failed := need{led: time.Now()}, false
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = discoverEvery
		now, err := s.standing()
		if err != nil {
			return err
		}
		if !need.arises(now, time.Now()) {
			continue
		}
		n, err := s.joinDiscovered(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if wait = discoverAgain; !failed {
				s.log.Warn("find servers in Consul, again every 9 s", "err", err)
			}
		case n > 0:
			s.log.Info("joined servers found in Consul", "servers", n)
		}
		failed = err != nil
	}
}

// standing is what a server knows of its cluster.
type standing struct {
	empty         bool // it has no cluster
	led           bool // it has a leader
	peers, expect int  // alive servers of the region with this one, and how many bootstrap the cluster
}

func (s *Server) standing() (standing, error) {
	empty, err := s.raft.Empty()
	_, id := s.raft.Leader()
	return standing{empty: empty, led: id != "", peers: len(s.aliveIn(s.cfg.Region)), expect: s.cfg.BootstrapExpect}, err
}

// need decides when a server searches for others.
type need struct {
	led  time.Time // when it last had a leader
	next time.Time // no search before, in a cluster
}

// arises reports whether a server searches now: it has no cluster and too few peers, or it has had no leader for a while.
func (n *need) arises(s standing, now time.Time) bool {
	switch {
	case s.led:
		n.led, n.next = now, time.Time{}
		return false
	case s.empty:
		return s.peers < max(s.expect, 2)
	case now.Sub(n.led) < leaderlessFor || now.Before(n.next):
		return false
	}
	n.next = now.Add(leaderlessPoll + rand.N(leaderlessPoll/2))
	return true
}

// joinDiscovered joins the found servers that are not members yet, and returns how many it reached. The addresses are those
// of another system: each is dialed first and joined alone, so that one that does not answer delays neither the others nor
// the exit for long.
func (s *Server) joinDiscovered(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	addrs, err := s.cfg.Discover(ctx)
	if err != nil {
		return 0, err
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	var failed error
	for _, addr := range addrs {
		if s.hasMember(addr) {
			continue
		}
		if err = accepts(ctx, addr); err == nil {
			_, err = s.Join([]string{addr})
		}
		switch {
		case ctx.Err() != nil:
			return n, ctx.Err()
		case err == nil:
			n++
		default:
			failed = err
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, failed
}

// hasMember reports whether this server or an alive member has an address.
func (s *Server) hasMember(addr string) bool {
	has := func(m *message.ServerMember) bool { return m.Status == gossip.Alive && gossipAddr(m) == addr }
	return has(s.Self()) || slices.ContainsFunc(s.Members(), has)
}

// accepts returns an error if nothing accepts connections at an address.
func accepts(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: dialWithin}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// gossipAddr returns the address of a member for gossip.
func gossipAddr(m *message.ServerMember) string {
	return net.JoinHostPort(m.Addr.String(), strconv.Itoa(int(m.Port)))
}
