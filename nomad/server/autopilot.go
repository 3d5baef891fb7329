package server

import (
	"context"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/autopilot"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// newPilot returns the autopilot, which runs while this server is the leader.
func (s *Server) newPilot() *autopilot.Pilot {
	return autopilot.New(autopilot.Config{ID: s.raft.ID(), Raft: s.raft.Library(), Cluster: pilotCluster{s},
		Settings: s.autopilotConfig, Interval: s.cfg.AutopilotInterval, Log: s.log})
}

// autopilotConfig returns the stored configuration of the region. Until the leader has stored
// one, it returns the configuration of this server.
func (s *Server) autopilotConfig() nomad.AutopilotConfig {
	if c := s.fsm.State().Snapshot().AutopilotConfig(nil); c != nil {
		return *c
	}
	return *s.cfg.Autopilot
}

// ServerHealth returns the health of the region's servers and the unsupported stored features.
// It returns nil unless this server is the leader.
func (s *Server) ServerHealth() *message.OperatorHealthReply {
	health := s.pilot.Health()
	if health == nil {
		return nil
	}
	out := *health
	out.Unserved = s.Unserved()
	return &out
}

// Unserved returns messages about the stored features that this version does not support, on every
// server.
func (s *Server) Unserved() []string { return s.unserved.Sentences() }

// pilotCluster gives autopilot access to the members.
type pilotCluster struct{ s *Server }

// Servers returns the members of the region.
func (c pilotCluster) Servers() []*message.ServerMember {
	var out []*message.ServerMember
	for _, m := range c.s.Members() {
		if m.Tags["region"] == c.s.cfg.Region {
			out = append(out, m)
		}
	}
	return out
}

// RaftStats requests the Raft statistics of a member.
func (c pilotCluster) RaftStats(ctx context.Context, m *message.ServerMember) (*message.RaftStats, error) {
	if m.Tags["id"] == c.s.raft.ID() {
		stats := c.s.raft.Stats()
		term, err := strconv.ParseUint(stats["last_log_term"], 10, 64)
		return &message.RaftStats{LastContact: "0", LastTerm: term, LastIndex: c.s.raft.LastIndex()}, err
	}
	out := &message.RaftStats{}
	req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: c.s.cfg.Region, AllowStale: true}}
	return out, c.s.peers.Call(ctx, peerAddr(m), "Status.RaftStats", req, out)
}

// ForceLeave changes the status of a failed member to left. Reconcile then removes it from the
// Raft configuration.
func (c pilotCluster) ForceLeave(name string) error { return c.s.ForceLeave(name) }
