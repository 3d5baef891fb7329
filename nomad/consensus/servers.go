package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// changeTimeout limits how long a configuration change waits in the queue.
const changeTimeout = enqueueTimeout

// caughtUpPause is the interval at which CaughtUp checks the applied index.
const caughtUpPause = 10 * time.Millisecond

// ErrBootstrapped means that this server already has a log.
var ErrBootstrapped = errors.New("the cluster is already bootstrapped")

// Empty reports whether this server has no log and is not a member of a cluster.
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

// Bootstrap starts a cluster with the given servers (ID to address), of which this server is
// one. Only one server of a new cluster calls it, once.
func (r *Raft) Bootstrap(servers map[string]string) error {
	var conf raft.Configuration
	for id, addr := range servers {
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(addr)})
	}
	err := r.raft.BootstrapCluster(conf).Error()
	switch {
	case errors.Is(err, raft.ErrCantBootstrap):
		return ErrBootstrapped
	case err != nil:
		return fmt.Errorf("bootstrap raft: %w", err)
	}
	r.Campaign()
	return nil
}

// AddVoter adds a voter, or updates its address.
func (r *Raft) AddVoter(ctx context.Context, id, addr string) error {
	if err := r.wait(ctx, r.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(addr), 0, changeTimeout)); err != nil {
		return fmt.Errorf("add server %s to raft: %w", id, err)
	}
	return nil
}

// AddNonvoter adds a server without a vote, or updates its address. A voter stays a voter.
func (r *Raft) AddNonvoter(ctx context.Context, id, addr string) error {
	if err := r.wait(ctx, r.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, changeTimeout)); err != nil {
		return fmt.Errorf("add server %s to raft without a vote: %w", id, err)
	}
	return nil
}

// Library returns the underlying raft.Raft for the autopilot library.
func (r *Raft) Library() *raft.Raft { return r.raft }

// RemoveServer removes a server from the cluster.
func (r *Raft) RemoveServer(ctx context.Context, id string) error {
	if err := r.wait(ctx, r.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout)); err != nil {
		return fmt.Errorf("remove server %s from raft: %w", id, err)
	}
	return nil
}

// CaughtUp waits for contact with a leader, and then until everything committed by that time
// was applied.
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

// TransferLeadership transfers leadership to the server with the ID. If the ID is empty, raft selects the
// most up-to-date server.
func (r *Raft) TransferLeadership(ctx context.Context, id, addr string) error {
	var f raft.Future
	if id == "" {
		f = r.raft.LeadershipTransfer()
	} else {
		f = r.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(addr))
	}
	err := r.wait(ctx, f)
	if errors.Is(err, raft.ErrNotLeader) {
		return apierror.ErrNoLeader
	}
	if err != nil {
		return fmt.Errorf("hand over leadership: %w", err)
	}
	return nil
}
