package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
)

// changeTimeout bounds how long a change of the servers waits for its turn.
const changeTimeout = enqueueTimeout

// caughtUpPause is how often a server that catches up looks how far it is.
const caughtUpPause = 10 * time.Millisecond

// ErrBegun means that this server has a log already.
var ErrBegun = errors.New("the cluster has begun")

// Empty says whether this server knows of no cluster: its log is empty and nobody
// has made it a member.
func (r *Raft) Empty() (bool, error) {
	if r.raft.LastIndex() > 0 {
		return false, nil
	}
	has, err := raft.HasExistingState(r.stores.log, r.stores.stable, r.stores.snapshots)
	if err != nil {
		return false, fmt.Errorf("read raft log: %w", err)
	}
	return !has, nil
}

// Bootstrap begins a cluster of the given servers, addresses by ID, and asks for
// their votes. One of them does so, once.
func (r *Raft) Bootstrap(servers map[string]string) error {
	var conf raft.Configuration
	for id, addr := range servers {
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(addr)})
	}
	err := r.raft.BootstrapCluster(conf).Error()
	switch {
	case errors.Is(err, raft.ErrCantBootstrap):
		return ErrBegun
	case err != nil:
		return fmt.Errorf("bootstrap raft: %w", err)
	}
	r.Campaign()
	return nil
}

// AddVoter makes a server a voter, or notes its new address.
func (r *Raft) AddVoter(ctx context.Context, id, addr string) error {
	if err := r.wait(ctx, r.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(addr), 0, changeTimeout)); err != nil {
		return fmt.Errorf("add server %s to raft: %w", id, err)
	}
	return nil
}

// AddNonvoter adds a server that has the log but no vote, or notes its new address.
// One that votes stays a voter.
func (r *Raft) AddNonvoter(ctx context.Context, id, addr string) error {
	if err := r.wait(ctx, r.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, changeTimeout)); err != nil {
		return fmt.Errorf("add server %s to raft without a vote: %w", id, err)
	}
	return nil
}

// Library is the log as the library of autopilot takes it.
func (r *Raft) Library() *raft.Raft { return r.raft }

// RemoveServer takes a server out of the cluster.
func (r *Raft) RemoveServer(ctx context.Context, id string) error {
	if err := r.wait(ctx, r.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {
		return fmt.Errorf("remove server %s from raft: %w", id, err)
	}
	return nil
}

// CaughtUp waits until this server has heard from a leader and applied what was
// committed then.
func (r *Raft) CaughtUp(ctx context.Context) error {
	for {
		if target := r.raft.CommitIndex(); target > 0 && !r.raft.LastContact().IsZero() && r.raft.AppliedIndex() >= target {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(caughtUpPause):
		}
	}
}

// HandOver makes another server the leader: the one with the ID, or the most
// advanced when it is "".
func (r *Raft) HandOver(ctx context.Context, id, addr string) error {
	var f raft.Future
	if id == "" {
		f = r.raft.LeadershipTransfer()
	} else {
		f = r.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(addr))
	}
	err := r.wait(ctx, f)
	if errors.Is(err, raft.ErrNotLeader) {
		return nomad.ErrNoLeader
	}
	if err != nil {
		return fmt.Errorf("hand over leadership: %w", err)
	}
	return nil
}
