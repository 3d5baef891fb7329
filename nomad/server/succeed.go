package server

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

// succeedStagger keeps two servers from asking for votes at the same time.
const succeedStagger = 250 * time.Millisecond

// succeed asks for votes at once when the process of the leader is gone, instead of
// waiting until its heartbeats are missed. That it is gone is certain only when a
// connection to it broke and its machine then refuses another; anything else is
// left to the timers of Raft. Raft stays safe whoever asks, whenever.
//
//	connected to the leader ──breaks──▶ refused ──the others of a lower ID had their turn──▶ asks for votes
//	        ▲                              └─anything else─▶ waits for another leader
//	        └──────────────another leader────────────────────────────────────────────┘
func (s *Server) succeed(ctx context.Context) error {
	if s.alone() {
		return nil
	}
	for {
		changed := s.raft.LeaderChange()
		if addr, id := s.Leader(); id != "" && id != s.raft.ID() && s.lost(ctx, changed, addr) {
			s.candidate(ctx, id)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// lost holds a connection to the leader and says whether its process is gone. It
// returns when there is another leader, too.
func (s *Server) lost(ctx context.Context, changed <-chan struct{}, addr string) bool {
	conn, err := s.peers.DialRaft(ctx, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		io.Copy(io.Discard, conn) // the leader sends nothing: it ends with the connection
	}()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
		return false
	case <-broken:
	}
	again, err := s.peers.DialRaft(ctx, addr)
	if err == nil {
		again.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// candidate asks for votes, after those with a lower ID had time for it.
func (s *Server) candidate(ctx context.Context, leader string) {
	servers, err := s.raft.Servers()
	if err != nil {
		return
	}
	turn := time.Duration(0)
	for _, other := range servers {
		if id := string(other.ID); id != leader && id < s.raft.ID() {
			turn++
		}
	}
	for mine := time.After(turn * succeedStagger); ; {
		changed := s.raft.LeaderChange()
		if _, id := s.raft.Leader(); id != "" && id != leader {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed: // one that asks for votes ends the old leader's term
		case <-mine:
			if s.isVoter() {
				s.log.Info("the leader is gone: asking for votes", "leader", leader)
				s.raft.Campaign()
			}
			return
		}
	}
}
