package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// How often the leader compares the members with the Raft configuration without an event, and
// after an error.
const (
	reconcileEvery = 30 * time.Second
	reconcileAgain = 2 * time.Second
)

// reconcile adds servers of the region that joined to the Raft configuration, without a vote;
// autopilot promotes stable servers. It removes servers that left at once, and leaves failed
// servers to autopilot. It runs only on the leader, and never adds servers of other regions.
func (s *Server) reconcile(ctx context.Context) error {
	if s.alone() {
		<-ctx.Done()
		return ctx.Err()
	}
	reported := ""
	for {
		moved, wait, fault := s.moved.wait(), reconcileEvery, ""
		if err := s.reconcileOnce(ctx); err != nil && ctx.Err() == nil {
			wait, fault = reconcileAgain, err.Error()
		}
		if fault != "" && fault != reported {
			s.log.Warn("reconcile the members with raft", "err", fault)
		}
		reported = fault
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-time.After(wait):
		}
	}
}

func (s *Server) reconcileOnce(ctx context.Context) error {
	defer measureLeader("reconcile", time.Now())
	have, err := s.raft.Servers()
	if err != nil {
		return err
	}
	members := s.Members()
	alive := map[string]*message.ServerMember{}
	for _, m := range members {
		if m.Tags["region"] == s.cfg.Region && m.Status == gossip.Alive {
			alive[m.Tags["id"]] = m
		}
	}
	gone := s.departed(have, members)
	var errs []error
	for _, server := range have {
		if id := string(server.ID); gone[id] && id != s.raft.ID() {
			s.log.Info("a server left", "server", id)
			errs = append(errs, s.raft.RemoveServer(ctx, id))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(alive)) {
		if id != s.raft.ID() {
			errs = append(errs, s.enroll(ctx, have, alive, id))
		}
	}
	return errors.Join(errs...)
}

// enroll adds one of the members that are alive to the Raft configuration, unless it is present with the same address. A
// voter with a new address stays a voter.
func (s *Server) enroll(ctx context.Context, have []raft.Server, alive map[string]*message.ServerMember, id string) error {
	m := alive[id]
	addr := peerAddr(m)
	known, votes := false, false
	for _, server := range have {
		switch {
		case string(server.ID) == id && string(server.Address) == addr:
			return nil
		case string(server.ID) == id:
			known = true
			votes = server.Suffrage == raft.Voter
		case string(server.Address) == addr && alive[string(server.ID)] == nil:
			// The machine got a new data_dir, so the old server no longer exists.
			if err := s.raft.RemoveServer(ctx, string(server.ID)); err != nil {
				return err
			}
		}
	}
	switch {
	case !nomad.IsUUID(id) || m.Tags["raft_vsn"] != raftVersion:
		s.log.Warn("member cannot be added", "server", m.Name, "raft_vsn", m.Tags["raft_vsn"])
		return nil
	case !known && m.Tags["bootstrap"] == "1" && !s.beganThis(ctx, addr):
		s.log.Error("not adding a server that bootstrapped its own cluster: empty its data_dir and unset bootstrap_expect", "server", m.Name)
		return nil
	}
	if err := s.proves(ctx, addr); err != nil {
		return fmt.Errorf("add server %s: %w", m.Name, err)
	}
	s.log.Info("a server joins", "server", m.Name, "addr", addr, "votes", votes)
	if votes {
		return s.raft.AddVoter(ctx, id, addr)
	}
	return s.raft.AddNonvoter(ctx, id, addr)
}

// peersWithin limits the requests to a server that is to be added.
const peersWithin = 3 * time.Second

// proves verifies that a server answers at the address from gossip. With TLS, this also
// verifies its server certificate, so access to gossip alone is not sufficient.
func (s *Server) proves(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, peersWithin)
	defer cancel()
	req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: s.cfg.Region, AllowStale: true}}
	return s.peers.Call(ctx, addr, "Status.Ping", req, nil)
}

// beganThis reports whether a server with bootstrap_expect bootstrapped this cluster. It was
// removed after a failure, and its log still contains this server.
func (s *Server) beganThis(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, peersWithin)
	defer cancel()
	req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: s.cfg.Region, AllowStale: true}}
	var peers []string
	if err := s.peers.Call(ctx, addr, "Status.Peers", req, &peers); err != nil {
		s.log.Warn("ask a server for its peers", "addr", addr, "err", err)
		return false
	}
	return slices.Contains(peers, s.peer)
}
