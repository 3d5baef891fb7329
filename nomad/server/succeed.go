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
	// succeedStagger separates the elections of two servers.
	succeedStagger = 250 * time.Millisecond
	// pollInterval is the pause before the leader is looked up again.
	pollInterval = 10 * time.Millisecond
)

// succeed starts an election as soon as the leader's process has ended, without waiting for the
// heartbeat timeout. The process has certainly ended only if a connection to it breaks and its
// machine refuses a new one. Everything else is left to Raft's timers. Raft stays safe
// whichever server starts an election.
//
//	   ┌──works, or breaks at once──┐
//	   ▼                            │
//	connected to the leader ──breaks┴▶ refused ──servers with lower IDs had their turn──▶ election
//	   ▲                              └─anything else─▶ waits for another leader
//	   └──────────────another leader──────────────────────────────────────────┘
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

// lost holds a connection to the leader and reports whether its process has ended. It also
// returns when there is another leader. A killed process closes its connections and its
// listener in sequence. A connection made in between breaks as well, so each new connection is
// held like the first.
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
		case <-time.After(pollInterval):
		}
	}
}

// broke holds a connection until it breaks. It returns false if there is another leader first.
func broke(ctx context.Context, changed <-chan struct{}, conn net.Conn) bool {
	defer conn.Close()
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		io.Copy(io.Discard, conn) // the leader sends nothing, so this ends with the connection
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

// candidate starts an election after the servers with lower IDs have had time for it.
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
	for after := time.After(turn * succeedStagger); ; {
		changed := s.raft.LeaderChange()
		if _, id := s.raft.Leader(); id != "" && id != leader {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed: // another server's election ends the old leader's term
		case <-after:
			if s.isVoter() {
				s.log.Info("the leader has stopped: starting an election", "leader", leader)
				s.raft.Campaign()
			}
			return
		}
	}
}
