package endpoint

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (s *Service) schedulerGetConfig(ctx context.Context, _ *rpc.Call, req *nomad.GenericRequest) (*nomad.SchedulerConfigurationResponse, error) {
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.SchedulerConfigurationResponse) error {
		out.Index, out.SchedulerConfig = snap.SchedulerConfig(ws)
		return nil
	})
}

func (s *Service) schedulerSetConfig(ctx context.Context, _ *rpc.Call, req *nomad.SchedulerSetConfigRequest) (*nomad.SchedulerSetConfigurationResponse, error) {
	cfg := req.Config
	switch cfg.SchedulerAlgorithm {
	case "":
		cfg.SchedulerAlgorithm = nomad.SchedulerAlgorithmBinpack
	case nomad.SchedulerAlgorithmBinpack, nomad.SchedulerAlgorithmSpread:
	default:
		return nil, nomad.Errorf(400, "invalid scheduler algorithm: %q", cfg.SchedulerAlgorithm)
	}
	if cfg.NodeLimitForFeasibilityChecks == 0 {
		cfg.NodeLimitForFeasibilityChecks = nomad.DefaultNodeLimitForFeasibilityChecks
	}
	if cfg.PauseEvalBroker {
		return nil, absent("pausing of the evaluation broker")
	}
	if req.CAS {
		if index, _ := s.snapshot().SchedulerConfig(nil); index != cfg.ModifyIndex {
			return &nomad.SchedulerSetConfigurationResponse{}, nil
		}
	}
	resp, index, err := s.cfg.Raft.Apply(ctx, nomad.SchedulerConfigRequestType, &nomad.SchedulerSetConfigRequest{Config: cfg, CAS: req.CAS})
	if err != nil {
		return nil, err
	}
	out := &nomad.SchedulerSetConfigurationResponse{Updated: true}
	out.Index = index
	if updated, ok := resp.(bool); ok {
		out.Updated = updated
	}
	return out, nil
}

// raftConfig shows the servers as the log has them.
func (s *Service) raftConfig(context.Context, *rpc.Call, *nomad.GenericRequest) (*nomad.RaftConfigurationResponse, error) {
	self := s.cfg.Cluster.Self()
	addr, leader := s.cfg.Cluster.Leader()
	return &nomad.RaftConfigurationResponse{Index: s.cfg.Raft.AppliedIndex(), Servers: []*nomad.RaftServer{{
		ID: s.cfg.Raft.ID(), Node: self.Name, Address: addr, Leader: leader == s.cfg.Raft.ID(), Voter: true, RaftProtocol: self.Tags["raft_vsn"]}}}, nil
}

// systemGC hands the broker an evaluation that collects whatever can be collected.
func (s *Service) systemGC(_ context.Context, _ *rpc.Call, _ *nomad.GenericRequest) (*nomad.GenericResponse, error) {
	index := s.snapshot().Index()
	s.cfg.Broker.Enqueue(nomad.NewCoreEval(nomad.CoreJobForceGC, index, s.cfg.Now()))
	out := &nomad.GenericResponse{}
	out.Index = index
	return out, nil
}

func (s *Service) systemReconcile(ctx context.Context, _ *rpc.Call, _ *nomad.GenericRequest) (*nomad.GenericResponse, error) {
	index, err := s.apply(ctx, nomad.ReconcileJobSummariesRequestType, &nomad.GenericRequest{})
	if err != nil {
		return nil, err
	}
	out := &nomad.GenericResponse{}
	out.Index = index
	return out, nil
}
