package server

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// askLeaderWithin bounds one question to the leader, and askLeaderFor all of them: a
	// leader that does not answer them does not keep a server from its work.
	askLeaderWithin = 2 * time.Second
	askLeaderFor    = 10 * time.Second
	catchUpPause    = 5 * time.Millisecond
)

// catchUp waits until this server, led by another, has in state what the leader had
// when it first heard of it: what is in its own log, and what was written while it was
// away. Before that it would refuse tokens that all others know.
func (s *Server) catchUp(ctx context.Context) error {
	for !s.caughtUp.isOpen() {
		changed := s.raft.LeaderChange()
		if addr, id := s.Leader(); id != "" && id != s.raft.ID() {
			if err := s.follow(ctx, addr, changed); err != nil {
				return err
			}
			s.settleKeys(ctx)
			s.caughtUp.open()
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-s.caughtUp.whenOpen():
		}
	}
	return nil
}

// follow waits until this server has applied what the leader has. A change of leaders
// ends the wait for the answer, not for what it said: the next leader has that too.
func (s *Server) follow(ctx context.Context, addr string, changed <-chan struct{}) error {
	if err := s.raft.CaughtUp(ctx); err != nil {
		return err
	}
	var target uint64
	for over := time.After(askLeaderFor); ; {
		had, err := s.stateAt(ctx, addr)
		if err == nil {
			target = had
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			s.log.Warn("going on without knowing how far the leader is", "err", err)
			return nil
		case <-changed:
			changed = s.raft.LeaderChange()
		case <-time.After(catchUpPause):
		}
		if next, id := s.Leader(); id == s.raft.ID() {
			return nil // nobody is further
		} else if id != "" {
			addr = next
		}
	}
	for s.fsm.State().LatestIndex() < target { // the log is ahead of state for a moment
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.caughtUp.whenOpen(): // it leads
			return nil
		case <-time.After(catchUpPause):
		}
	}
	return nil
}

// stateAt asks another server for the index of its state; a server of another make does
// not tell, and counts as one that has nothing.
func (s *Server) stateAt(ctx context.Context, addr string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, askLeaderWithin)
	defer cancel()
	var out nomad.RaftStats
	req := &nomad.GenericRequest{QueryOptions: nomad.QueryOptions{Region: s.cfg.Region, AllowStale: true}}
	if err := s.peers.Call(ctx, addr, "Status.RaftStats", req, &out); err != nil {
		return 0, fmt.Errorf("ask %s how far its state is: %w", addr, err)
	}
	return out.StateIndex, nil
}
