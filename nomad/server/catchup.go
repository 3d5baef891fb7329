package server

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	// askLeaderWithin limits one request to the leader, and askLeaderFor all of them. This
	// server starts its work even if the leader does not answer.
	askLeaderWithin = 2 * time.Second
	askLeaderFor    = 10 * time.Second
	catchUpPause    = 5 * time.Millisecond
	// ownLogWithin limits how long a server without peers delays joining others until it has
	// applied its log.
	ownLogWithin = 10 * time.Second
)

// catchUp waits until this follower has the state that the leader had at first contact. That
// includes its own log and everything written while it was down. Before that, it would refuse
// tokens that are valid elsewhere.
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

// applyOwnLog waits until a server without peers has applied its log, so that the state is
// complete before the server joins others. Any other server needs its peers for that: it has the
// state of its last snapshot until it catches up.
func (s *Server) applyOwnLog() {
	if servers, err := s.raft.Servers(); err != nil || len(servers) != 1 || !listed(servers, s.raft.ID()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ownLogWithin)
	defer cancel()
	if err := s.applyAll(ctx); err != nil {
		s.log.Warn("joining before the log was applied", "err", err)
	}
}

// applyAll waits until this server leads and all log entries have been applied.
func (s *Server) applyAll(ctx context.Context) error {
	for {
		changed := s.raft.LeaderChange()
		if s.raft.IsLeader() {
			return s.raft.Barrier(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// follow waits until this server has applied everything that the leader had. A change of leader
// ends the wait for an answer. It does not end the wait for an index, because the new leader
// has those entries too.
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
			s.log.Warn("continuing without the leader's index", "err", err)
			return nil
		case <-changed:
			changed = s.raft.LeaderChange()
		case <-time.After(catchUpPause):
		}
		if next, id := s.Leader(); id == s.raft.ID() {
			return nil // no other server has more entries
		} else if id != "" {
			addr = next
		}
	}
	for s.fsm.State().LatestIndex() < target { // the log may be slightly ahead of state
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.caughtUp.whenOpen(): // this server is the leader
			return nil
		case <-time.After(catchUpPause):
		}
	}
	return nil
}

// stateAt requests the state index of another server. Servers of other implementations do not
// support the request and count as 0.
func (s *Server) stateAt(ctx context.Context, addr string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, askLeaderWithin)
	defer cancel()
	var out message.RaftStats
	req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: s.cfg.Region, AllowStale: true}}
	if err := s.peers.Call(ctx, addr, "Status.RaftStats", req, &out); err != nil {
		return 0, fmt.Errorf("ask %s for its state index: %w", addr, err)
	}
	return out.StateIndex, nil
}
