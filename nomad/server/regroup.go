package server

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// How often a server without known members checks, and how long it waits for the leader's
// answer.
const (
	regroupEvery  = 5 * time.Second
	regroupWithin = 3 * time.Second
)

// regroup joins the leader's members if this server has none. It was killed before it had
// stored them, but its log still has the leader's address.
func (s *Server) regroup(ctx context.Context) error {
	if s.alone() {
		return nil
	}
	for {
		changed := s.raft.LeaderChange()
		if err := s.regroupOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("join the leader's members", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(regroupEvery):
		}
	}
}

func (s *Server) regroupOnce(ctx context.Context) error {
	addr, id := s.raft.Leader()
	if id == "" || id == s.raft.ID() || len(s.aliveIn(s.cfg.Region)) > 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, regroupWithin)
	defer cancel()
	token, err := s.token(ctx)
	if err != nil {
		return err
	}
	req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: s.cfg.Region, AuthToken: token, AllowStale: true}}
	var known message.ServerMembersResponse
	if err := s.peers.Call(ctx, addr, "Status.Regroup", req, &known); err != nil {
		return err
	}
	var addrs []string
	for _, m := range known.Members {
		if m.Status == gossip.Alive && m.Tags["id"] != s.raft.ID() {
			addrs = append(addrs, net.JoinHostPort(m.Addr.String(), strconv.Itoa(int(m.Port))))
		}
	}
	if len(addrs) == 0 {
		return nil
	}
	n, err := s.Join(addrs)
	if n > 0 {
		s.log.Info("joined the leader's members", "servers", n)
		return nil
	}
	return err
}
