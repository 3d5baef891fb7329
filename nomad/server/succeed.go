package server

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

const (
	// succeedStagger keeps two servers from asking for votes at the same time.
	succeedStagger = 250 * time.Millisecond
	// lookAgain is the pause before the leader is looked for once more.
	lookAgain = 10 * time.Millisecond
)

// succeed asks for votes at once when the process of the leader is gone, instead of
// waiting until its heartbeats are missed. That it is gone is certain only when a
// connection to it broke and its machine then refuses another; anything else is
// left to the timers of Raft. Raft stays safe whoever asks, whenever.
//
//	   ┌──works, or breaks at once──┐
//	   ▼                            │
//	connected to the leader ──breaks┴▶ refused ──the others of a lower ID had their turn──▶ asks for votes
//	   ▲                              └─anything else─▶ waits for another leader
//	   └──────────────another leader────────────────────────────────────────────┘
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
// returns when there is another leader, too. A process that is killed closes its
// connections and its listener one after the other: in between another connection
// is made and breaks, so each is held like the first.
func (s *Server) lost(ctx context.Context, changed <-chan struct{}, addr string) bool {
	for connected := false; ; {
		conn, err := s.peers.DialRaft(ctx, addr)
		switch {
		case err == nil:
			connected = true
			if !broke(ctx, changed, conn) {
				return false
			}
		case connected && errors.Is(err, syscall.ECONNREFUSED):
			return true
		case !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE):
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			return false
		case <-time.After(lookAgain):
		}
	}
}

// broke holds a connection until it breaks; false when there is another leader first.
func broke(ctx context.Context, changed <-chan struct{}, conn net.Conn) bool {
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
		return true
	}
}

// candidate asks for votes, after those with a lower ID had time for it.
func (s *Server) candidate(ctx context.Context, leader string) {
	servers, err := s.raft.Servers()
	if err != nil {
		return
	}
	turn := time.Duration(0)
	for _, other := range votersOf(servers) {
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
