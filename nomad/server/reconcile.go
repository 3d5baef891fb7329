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
)

// How often the leader compares the members with its log even when nothing moved,
// and when something could not be done.
const (
	reconcileEvery = 30 * time.Second
	reconcileAgain = 2 * time.Second
)

// reconcile adds the servers of the region that joined to the log, without a vote:
// autopilot gives it to them when they are stable. It takes those
// that left out of the log at once; what failed is for autopilot to judge. Only the
// leader does so. Servers of other regions are never added here.
func (s *Server) reconcile(ctx context.Context) error {
	if s.alone() {
		<-ctx.Done()
		return ctx.Err()
	}
	told := ""
	for {
		moved, wait, fault := s.moved.wait(), reconcileEvery, ""
		if err := s.reconcileOnce(ctx); err != nil && ctx.Err() == nil {
			wait, fault = reconcileAgain, err.Error()
		}
		if fault != "" && fault != told {
			s.log.Warn("bring the members into the log", "err", fault)
		}
		told = fault
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
	alive := map[string]*nomad.ServerMember{}
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
			errs = append(errs, s.enroll(ctx, have, alive, id, alive[id]))
		}
	}
	return errors.Join(errs...)
}

// enroll adds a member to the log, unless it is there with the same address. Who votes
// goes on voting at another address.
func (s *Server) enroll(ctx context.Context, have []raft.Server, alive map[string]*nomad.ServerMember, id string, m *nomad.ServerMember) error {
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
			// The same machine with a new data_dir: the old server is no more.
			if err := s.raft.RemoveServer(ctx, string(server.ID)); err != nil {
				return err
			}
		}
	}
	switch {
	case !nomad.IsUUID(id) || m.Tags["raft_vsn"] != raftVersion:
		s.log.Warn("a member can't be added", "server", m.Name, "raft_vsn", m.Tags["raft_vsn"])
		return nil
	case !known && m.Tags["bootstrap"] == "1" && !s.beganThis(ctx, addr):
		s.log.Error("a server began a cluster of its own and is not added: empty its data_dir and unset bootstrap_expect", "server", m.Name)
		return nil
	}
	if err := s.proves(ctx, addr); err != nil {
		return fmt.Errorf("server %s is not added: %w", m.Name, err)
	}
	s.log.Info("a server joins", "server", m.Name, "addr", addr, "votes", votes)
	if votes {
		return s.raft.AddVoter(ctx, id, addr)
	}
	return s.raft.AddNonvoter(ctx, id, addr)
}

// peersWithin bounds the questions to a server that is to be added.
const peersWithin = 3 * time.Second

// proves makes sure that a server answers where gossip says that it is. With TLS it
// has then shown the certificate of a server: who only knows how to gossip does not
// get into the log.
func (s *Server) proves(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, peersWithin)
	defer cancel()
	req := &nomad.GenericRequest{QueryOptions: nomad.QueryOptions{Region: s.cfg.Region, AllowStale: true}}
	return s.peers.Call(ctx, addr, "Status.Ping", req, nil)
}

// beganThis says whether a server that begins clusters began this one: it was removed
// when it had died, and its log still has this server.
func (s *Server) beganThis(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, peersWithin)
	defer cancel()
	req := &nomad.GenericRequest{QueryOptions: nomad.QueryOptions{Region: s.cfg.Region, AllowStale: true}}
	var peers []string
	if err := s.peers.Call(ctx, addr, "Status.Peers", req, &peers); err != nil {
		s.log.Warn("ask a server for its peers", "addr", addr, "err", err)
		return false
	}
	return slices.Contains(peers, s.peer)
}
