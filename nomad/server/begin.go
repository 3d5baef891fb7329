package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Times for bootstrapping a cluster.
const (
	beginPause = time.Second // between two checks of the members if no event arrives
	askTries   = 6
	askWithin  = 5 * time.Second
)

// begin bootstraps the cluster once the expected number of servers have met. The server with
// the lowest ID does it for all. It first asks every other server for an existing cluster, so
// that no two clusters begin. The others wait to be added.
//
//	servers missing ──all met──▶ lowest ID asks all ──no cluster──▶ bootstraps
//	     ▲                             │ └─a cluster exists──▶ waits to be added
//	     └──── one did not answer ─────┘
func (s *Server) begin(ctx context.Context) error {
	if s.alone() || s.cfg.BootstrapExpect < 2 {
		return nil
	}
	for {
		moved := s.moved.wait()
		if empty, err := s.raft.Empty(); err != nil || !empty {
			return err
		}
		if founders := s.founders(); founders != nil {
			err := s.beginWith(ctx, founders)
			if err == nil || errors.Is(err, consensus.ErrBootstrapped) {
				return nil
			}
			s.log.Warn("bootstrap the cluster", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-time.After(beginPause):
		}
	}
}

// founders returns the servers of the new cluster, ID to address. It returns nil if servers are
// missing, if their settings differ, or if another server must bootstrap the cluster.
func (s *Server) founders() map[string]string {
	own := fmt.Sprint(s.cfg.BootstrapExpect)
	out := map[string]string{}
	lowest := s.raft.ID()
	for _, m := range s.aliveIn(s.cfg.Region) {
		id := m.Tags["id"]
		switch expect := m.Tags["expect"]; {
		case m.Tags["bootstrap"] == "1":
			return nil // it has a cluster and will add this server
		case m.Tags["nonvoter"] == "1": // it is added later
		case expect != "" && expect != own:
			s.log.Error("servers have different values of bootstrap_expect: not bootstrapping", "server", m.Name,
				"expects", expect, "here", own)
			return nil
		case expect == own:
			out[id] = peerAddr(m)
			lowest = min(lowest, id)
		}
	}
	if len(out) < s.cfg.BootstrapExpect || lowest != s.raft.ID() {
		return nil
	}
	return out
}

// beginWith asks all founders for an existing cluster and bootstraps one if none exists.
func (s *Server) beginWith(ctx context.Context, founders map[string]string) error {
	for id, addr := range founders {
		if id == s.raft.ID() {
			continue
		}
		peers, err := s.askPeers(ctx, addr)
		if err != nil {
			return fmt.Errorf("ask server %s for its peers: %w", id, err)
		}
		if len(peers) > 0 {
			s.log.Info("a cluster exists: waiting to be added", "server", id)
			return consensus.ErrBootstrapped
		}
	}
	if err := s.raft.Bootstrap(founders); err != nil {
		return err
	}
	s.log.Info("bootstrapped a cluster", "servers", len(founders))
	return nil
}

// askPeers requests the Raft peers of a server. It repeats failed requests.
func (s *Server) askPeers(ctx context.Context, addr string) (peers []string, err error) {
	req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: s.cfg.Region, AllowStale: true}}
	for try := range askTries {
		once, cancel := context.WithTimeout(ctx, askWithin)
		err = s.peers.Call(once, addr, "Status.Peers", req, &peers)
		cancel()
		if err == nil || ctx.Err() != nil {
			return peers, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second << min(try, 2)):
		}
	}
	return nil, err
}
