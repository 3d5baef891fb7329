package endpoint

import (
	"context"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

func (s *Service) statusPing(context.Context, *rpc.Call, *message.GenericRequest) (*struct{}, error) {
	return &struct{}{}, nil
}

func (s *Service) statusLeader(context.Context, *rpc.Call, *message.GenericRequest) (*string, error) {
	addr, _ := s.Cluster.Leader()
	return &addr, nil
}

func (s *Service) statusPeers(context.Context, *rpc.Call, *message.GenericRequest) (*[]string, error) {
	servers, err := s.cfg.Voters.RaftServers()
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(servers))
	for _, server := range servers {
		out = append(out, server.Address)
	}
	return &out, nil
}

func (s *Service) statusMembers(context.Context, *rpc.Call, *message.GenericRequest) (*message.ServerMembersResponse, error) {
	return &message.ServerMembersResponse{ServerName: s.cfg.Name, ServerRegion: s.Region, ServerDC: s.cfg.Datacenter,
		Members: s.Cluster.Members()}, nil
}

func (s *Service) statusRaftStats(context.Context, *rpc.Call, *message.GenericRequest) (*nomad.RaftStats, error) {
	stats := s.Raft.Stats()
	out := &nomad.RaftStats{LastContact: stats["last_contact"], LastIndex: s.Raft.AppliedIndex(), StateIndex: s.Store().LatestIndex()}
	if term, err := strconv.ParseUint(stats["last_log_term"], 10, 64); err == nil {
		out.LastTerm = term
	}
	return out, nil
}

func (s *Service) statusHasNodeConn(_ context.Context, _ *rpc.Call, req *message.NodeSpecificRequest) (*message.NodeConnQueryResponse, error) {
	out := &message.NodeConnQueryResponse{}
	out.Established, out.Connected = s.Nodes().NodeConn(req.NodeID)
	out.KnownLeader, out.LastContact = s.Cluster.Contact()
	return out, nil
}

func (s *Service) regionList(context.Context, *rpc.Call, *message.GenericRequest) (*[]string, error) {
	out := []string{s.Region}
	for _, m := range s.Cluster.Members() {
		if region := m.Tags["region"]; !slices.Contains(out, region) {
			out = append(out, region)
		}
	}
	slices.Sort(out)
	return &out, nil
}
