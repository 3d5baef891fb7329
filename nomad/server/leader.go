package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/replication"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Times for establishing leadership.
const (
	barrierWithin = 30 * time.Second
	establishWait = time.Second // pause after a failed attempt
)

// followLeadership runs the leader's duties for each term in which this server is the leader.
func (s *Server) followLeadership(ctx context.Context) error {
	var end func()
	defer func() {
		if end != nil {
			end()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case leads := <-s.raft.Leadership():
			if end != nil {
				end()
				end = nil
			}
			if leads {
				end = s.beginTerm(ctx)
			}
		case fn := <-s.pauses:
			end = s.pause(ctx, end, fn)
		}
	}
}

// beginTerm starts the duties of a term. end stops them and waits until all have ended.
func (s *Server) beginTerm(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := s.lead(ctx)
			if ctx.Err() != nil {
				return
			}
			s.log.Error("establish leadership", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(establishWait):
			}
		}
	}()
	return func() {
		defer measureLeader("revoke_leadership", time.Now())
		cancel()
		<-done
	}
}

// lead runs the leader's duties until ctx ends.
func (s *Server) lead(ctx context.Context) error {
	term, _ := s.raft.Term() // before the barrier: a term lost since then is never confirmed
	barrier, cancel := context.WithTimeout(ctx, barrierWithin)
	defer cancel()
	begun := time.Now()
	if err := s.raft.Barrier(barrier); err != nil {
		return fmt.Errorf("wait for the log: %w", err)
	}
	measureLeader("barrier", begun)
	begun = time.Now()
	if err := s.bootstrap(ctx); err != nil {
		return err
	}
	s.settleKeys(ctx)
	_, endToken := s.authority.Lead()
	defer endToken()
	defer s.closeQueues()
	s.setQueues()
	if !s.broker.Enabled() {
		s.log.Warn("the evaluation broker is paused: no evaluation is processed")
	}
	snap := s.fsm.State().Snapshot()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.beats.Lead(slices.Collect(snap.Nodes(nil)))
	reaper := broker.NewReaper(broker.ReaperConfig{Broker: s.broker, Blocked: s.blocked, Write: s.writeEvals, JobExists: s.jobExists,
		Log: s.log})
	timer := gc.NewTimer(gc.Intervals{Job: s.cfg.JobGCInterval, RootKey: s.cfg.RootKeyGCInterval,
		CSIClaim: s.cfg.CSIClaimGCInterval}, s.raft.AppliedIndex, s.broker.Enqueue)
	for _, run := range []func(context.Context) error{
		func(ctx context.Context) error { return s.locks.Run(ctx, snap.LockedVariables()) },
		s.beats.Run, s.plans.Run, s.deploys.Run, s.periodic.Run, s.drains.Run, s.followPause, s.blocked.Run, reaper.Run, timer.Run, s.reconcile,
		s.claims.Run, s.pilot.Run, s.firstKey, s.sealSecrets,
		s.replicate,
	} {
		wg.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("a duty of the leader ended", "err", err)
				stop()
			}
		})
	}
	s.caughtUp.open()
	s.term.Store(term)
	s.leading.open()
	defer s.leading.shut()
	measureLeader("establish_leadership", begun)
	s.log.Info("leading", "region", s.cfg.Region, "index", snap.Index())
	s.finishDownNodes(ctx, snap)
	<-ctx.Done()
	return ctx.Err()
}

// replicate copies shared objects from the authoritative region, unless this is that region.
func (s *Server) replicate(ctx context.Context) error {
	if s.cfg.AuthoritativeRegion == s.cfg.Region {
		<-ctx.Done()
		return ctx.Err()
	}
	return replication.New(replication.Config{From: s.cfg.AuthoritativeRegion, Token: s.cfg.ReplicationToken, Access: s.cfg.Access.Enabled,
		RPC: s.rpc, Store: s.fsm.State, Apply: s.write, Log: s.log}).Run(ctx)
}

// finishDownNodes creates evaluations for down and disconnected nodes that still have allocations. The status of
// a node and its evaluations are two log entries, and the previous leader may have failed
// between them.
func (s *Server) finishDownNodes(ctx context.Context, snap *state.Snapshot) {
	for n := range snap.Nodes(nil) {
		lost := n.Status == nomad.NodeStatusDown || n.Status == nomad.NodeStatusDisconnected
		if !lost || !snap.HoldsWork(n.ID) {
			continue
		}
		req := &message.NodeEvaluateRequest{NodeID: n.ID}
		if err := s.asLeader().Call(ctx, "Node.Evaluate", req, nil); err != nil && ctx.Err() == nil {
			s.log.Warn("evaluate a node that is down", "node", n.ID, "err", err)
		}
	}
}

// jobExists reports whether state has the job.
func (s *Server) jobExists(namespace, id string) bool {
	return s.fsm.State().Snapshot().Job(nil, namespace, id) != nil
}

func (s *Server) writeEvals(ctx context.Context, evals []*nomad.Evaluation) error {
	return s.write(ctx, message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: evals})
}

// write appends one entry to the log.
func (s *Server) write(ctx context.Context, t message.CommandType, payload any) error {
	_, err := s.raft.Apply(ctx, t, payload)
	return err
}

// bootstrap writes the initial objects of a cluster that do not exist yet.
func (s *Server) bootstrap(ctx context.Context) error {
	snap := s.fsm.State().Snapshot()
	if snap.ActiveRootKey(nil) == nil && len(s.services) == 0 { // otherwise firstKey creates it, because a service may be unreachable
		if err := s.makeKey(ctx); err != nil {
			return err
		}
	}
	if index, _ := snap.SchedulerConfig(nil); index == 0 {
		if err := s.write(ctx, message.SchedulerConfigRequestType, &message.SchedulerSetConfigRequest{Config: s.cfg.Scheduler}); err != nil {
			return fmt.Errorf("write the scheduler configuration: %w", err)
		}
	}
	if snap.AutopilotConfig(nil) == nil {
		if err := s.write(ctx, message.AutopilotRequestType, &message.AutopilotSetConfigRequest{Config: *s.cfg.Autopilot}); err != nil {
			return fmt.Errorf("write the autopilot configuration: %w", err)
		}
	}
	if snap.ClusterMetadata(nil) == nil {
		meta := &nomad.ClusterMetadata{ClusterID: nomad.NewID(), CreateTime: time.Now().UnixNano()}
		if err := s.write(ctx, message.ClusterMetadataRequestType, meta); err != nil {
			return fmt.Errorf("write the cluster's ID: %w", err)
		}
	}
	return nil
}
