package servers

import (
	"context"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// SchedulerConfig returns the scheduler configuration.
func (s *Service) SchedulerConfig(ctx context.Context, _ *rpc.Call,
	req *message.GenericRequest) (*message.SchedulerConfigurationResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SchedulerConfigurationResponse) error {
			out.Index, out.SchedulerConfig = snap.SchedulerConfig(ws)
			return nil
		})
}

// SetSchedulerConfig changes the scheduler configuration.
func (s *Service) SetSchedulerConfig(ctx context.Context, _ *rpc.Call,
	req *message.SchedulerSetConfigRequest) (*message.SchedulerSetConfigurationResponse, error) {
	cfg := req.Config
	switch cfg.SchedulerAlgorithm {
	case "":
		cfg.SchedulerAlgorithm = nomad.SchedulerAlgorithmBinpack
	case nomad.SchedulerAlgorithmBinpack, nomad.SchedulerAlgorithmSpread:
	default:
		return nil, apierror.Errorf(400, "Invalid request: invalid scheduler algorithm: %q", cfg.SchedulerAlgorithm)
	}
	if cfg.NodeLimitForFeasibilityChecks == 0 {
		cfg.NodeLimitForFeasibilityChecks = nomad.DefaultNodeLimitForFeasibilityChecks
	}
	updated, index, err := handler.ApplyFor[bool](ctx, s.Core, message.SchedulerConfigRequestType,
		&message.SchedulerSetConfigRequest{Config: cfg, CAS: req.CAS})
	if err != nil {
		return nil, err
	}
	out := &message.SchedulerSetConfigurationResponse{Updated: updated}
	out.Index = index
	if out.Updated {
		s.awaitBroker(ctx, cfg.PauseEvalBroker)
	}
	return out, nil
}

// brokerWait limits awaitBroker.
const brokerWait = 5 * time.Second

// awaitBroker waits until the broker follows the configuration, so that a caller can delete evaluations
// right after a pause. A leader that lost its term, or a newer configuration, ends the wait without an
// error: the configuration is written.
func (s *Service) awaitBroker(ctx context.Context, paused bool) {
	wait, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	if paused {
		_ = s.Broker.AwaitDisabled(wait) // see above
		return
	}
	_ = s.Broker.AwaitEnabled(wait) // see above
}

// RaftConfig returns the servers in the Raft configuration.
func (s *Service) RaftConfig(context.Context, *rpc.Call, *message.GenericRequest) (*message.RaftConfigurationResponse, error) {
	servers, err := s.cfg.Voters.RaftServers()
	if err != nil {
		return nil, err
	}
	return &message.RaftConfigurationResponse{Index: s.Raft.AppliedIndex(), Servers: servers}, nil
}

// raftServer returns a server of the Raft configuration by its ID, or by its address if id is
// "".
func (s *Service) raftServer(id, addr string) (*message.RaftServer, error) {
	servers, err := s.cfg.Voters.RaftServers()
	if err != nil {
		return nil, err
	}
	for _, server := range servers {
		if id != "" && server.ID == id || id == "" && server.Address == addr {
			return server, nil
		}
	}
	kind := "id"
	if id == "" {
		kind = "address"
	}
	return nil, apierror.Errorf(404, "%s %q was not found in the Raft configuration", kind, id+addr) // tools match this text
}

// RemovePeer removes a server from the Raft configuration.
func (s *Service) RemovePeer(ctx context.Context, _ *rpc.Call, req *message.RaftPeerByIDRequest) (*struct{}, error) {
	if _, err := s.raftServer(req.ID, ""); err != nil {
		return nil, err
	}
	return &struct{}{}, s.cfg.Voters.RemoveServer(ctx, req.ID)
}

// RemovePeerByAddress always fails. It belongs to a Raft protocol version that is no longer
// supported.
func (s *Service) RemovePeerByAddress(context.Context, *rpc.Call, *message.RaftPeerByAddressRequest) (*struct{}, error) {
	return nil, apierror.Errorf(400, "servers are removed by ID, not by address")
}

// TransferLeadership transfers leadership to another server.
func (s *Service) TransferLeadership(ctx context.Context, _ *rpc.Call,
	req *message.RaftPeerRequest) (*message.LeadershipTransferResponse, error) {
	if (req.ID == "") == (req.Address == "") {
		return nil, apierror.Errorf(400, "specify either the ID or the address of the server")
	}
	to, err := s.raftServer(req.ID, req.Address)
	if err != nil {
		return nil, err
	}
	if !to.Voter {
		return nil, apierror.Errorf(400, "server %s is not a voter: it cannot become leader", to.ID)
	}
	addr, id := s.Cluster.Leader()
	out := &message.LeadershipTransferResponse{From: message.RaftIDAddress{ID: id, Address: addr},
		To: message.RaftIDAddress{ID: to.ID, Address: to.Address}}
	if out.Noop = id == to.ID; out.Noop {
		return out, nil
	}
	return out, s.cfg.Voters.TransferLeadership(ctx, to.ID, to.Address)
}

// ForceGC enqueues an evaluation that forces garbage collection.
func (s *Service) ForceGC(_ context.Context, _ *rpc.Call, _ *message.GenericRequest) (*message.GenericResponse, error) {
	index := s.Snapshot().Index()
	if !s.Broker.Enabled() {
		return nil, apierror.Errorf(409, "garbage collection is an evaluation, and the evaluation broker is paused")
	}
	s.Broker.Enqueue(nomad.NewCoreEval(nomad.CoreJobForceGC, index, s.Now()))
	return handler.Written(index, nil)
}

// ReconcileSummaries recomputes the summaries of all jobs.
func (s *Service) ReconcileSummaries(ctx context.Context, _ *rpc.Call, _ *message.GenericRequest) (*message.GenericResponse, error) {
	return handler.Written(s.Apply(ctx, message.ReconcileJobSummariesRequestType, &message.GenericRequest{}))
}

// Voters manages the servers in the Raft configuration.
type Voters interface {
	RaftServers() ([]*message.RaftServer, error)
	RemoveServer(ctx context.Context, id string) error
	// TransferLeadership transfers leadership to a server, or to the most up-to-date one when id is "".
	TransferLeadership(ctx context.Context, id, addr string) error
}
