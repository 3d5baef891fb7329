package server

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/gossip"
)

// reconcileEvery is how often the leader compares the members with its log even
// when nothing moved.
const reconcileEvery = 30 * time.Second

// reconcile makes the servers of the region that joined voters, and takes those
// that left out of the log; what failed stays, it may come back. Only the leader
// does so. Servers of other regions are never voters here.
func (s *Server) reconcile(ctx context.Context) error {
	if s.alone() {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		moved := s.moved.wait()
		if err := s.reconcileOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("bring the members into the log", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-time.After(reconcileEvery):
		}
	}
}

func (s *Server) reconcileOnce(ctx context.Context) error {
	have, err := s.raft.Servers()
	if err != nil {
		return err
	}
	alive := map[string]*nomad.ServerMember{}
	gone := s.takeGone()
	for _, m := range s.Members() {
		switch {
		case m.Tags["region"] != s.cfg.Region:
		case m.Status == gossip.Alive:
			alive[m.Tags["id"]] = m
		case m.Status == gossip.Left:
			gone[m.Tags["id"]] = true
		}
	}
	var errs []error
	for _, server := range have {
		if id := string(server.ID); gone[id] && alive[id] == nil && id != s.raft.ID() {
			s.log.Info("a server left", "server", id)
			errs = append(errs, s.raft.RemoveServer(ctx, id))
		}
	}
	for id, m := range alive {
		if id != s.raft.ID() {
			errs = append(errs, s.enroll(ctx, have, alive, id, m))
		}
	}
	return errors.Join(errs...)
}

// enroll makes a member a voter, unless it is one at the same address.
func (s *Server) enroll(ctx context.Context, have []raft.Server, alive map[string]*nomad.ServerMember, id string, m *nomad.ServerMember) error {
	addr := peerAddr(m)
	known := false
	for _, server := range have {
		switch {
		case string(server.ID) == id && string(server.Address) == addr && server.Suffrage == raft.Voter:
			return nil
		case string(server.ID) == id:
			known = true
		case string(server.Address) == addr && alive[string(server.ID)] == nil:
			// The same machine with a new data_dir: the old server is no more.
			if err := s.raft.RemoveServer(ctx, string(server.ID)); err != nil {
				return err
			}
		}
	}
	switch {
	case !nomad.IsUUID(id) || m.Tags["raft_vsn"] != raftVersion:
		s.log.Warn("a member can't be a voter", "server", m.Name, "raft_vsn", m.Tags["raft_vsn"])
		return nil
	case !known && m.Tags["bootstrap"] == "1":
		s.log.Error("a server began a cluster of its own and is not added: empty its data_dir and unset bootstrap_expect", "server", m.Name)
		return nil
	}
	s.log.Info("a server joins", "server", m.Name, "addr", addr)
	return s.raft.AddVoter(ctx, id, addr)
}
