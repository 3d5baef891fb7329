package servers

import (
	"context"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Ping does nothing.
func (s *Service) Ping(context.Context, *rpc.Call, *message.GenericRequest) (*struct{}, error) {
	return &struct{}{}, nil
}

// Leader returns the RPC address of the leader, or "" if there is none.
func (s *Service) Leader(context.Context, *rpc.Call, *message.GenericRequest) (*string, error) {
	addr, _ := s.Cluster.Leader()
	return &addr, nil
}

// RaftPeers returns the addresses of the servers in the Raft configuration.
func (s *Service) RaftPeers(context.Context, *rpc.Call, *message.GenericRequest) (*[]string, error) {
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

// Members returns the gossip members.
func (s *Service) Members(context.Context, *rpc.Call, *message.GenericRequest) (*message.ServerMembersResponse, error) {
	return &message.ServerMembersResponse{ServerName: s.cfg.Name, ServerRegion: s.Region, ServerDC: s.cfg.Datacenter,
		Members: s.Cluster.Members()}, nil
}

// RaftStats returns the progress of this server in the Raft log.
func (s *Service) RaftStats(context.Context, *rpc.Call, *message.GenericRequest) (*message.RaftStats, error) {
	stats := s.Raft.Stats()
	out := &message.RaftStats{LastContact: stats["last_contact"], LastIndex: s.Raft.AppliedIndex(), StateIndex: s.Store().LatestIndex()}
	if term, err := strconv.ParseUint(stats["last_log_term"], 10, 64); err == nil {
		out.LastTerm = term
	}
	return out, nil
}

// HasNodeConn reports whether a node has a session with this server.
func (s *Service) HasNodeConn(_ context.Context, _ *rpc.Call, req *message.NodeSpecificRequest) (*message.NodeConnQueryResponse, error) {
	out := &message.NodeConnQueryResponse{}
	out.Established, out.Connected = s.Nodes().NodeConn(req.NodeID)
	out.KnownLeader, out.LastContact = s.Cluster.Contact()
	return out, nil
}

// Regions returns the names of all regions with members, sorted.
func (s *Service) Regions(context.Context, *rpc.Call, *message.GenericRequest) (*[]string, error) {
	out := []string{s.Region}
	for _, m := range s.Cluster.Members() {
		if region := m.Tags["region"]; !slices.Contains(out, region) {
			out = append(out, region)
		}
	}
	slices.Sort(out)
	return &out, nil
}
