package server

import (
	"context"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/autopilot"
)

// newPilot makes what keeps the servers of the region while this one leads.
func (s *Server) newPilot() *autopilot.Pilot {
	return autopilot.New(autopilot.Config{ID: s.raft.ID(), Raft: s.raft.Library(), Cluster: pilotCluster{s},
		Settings: s.autopilotConfig, Interval: s.cfg.AutopilotInterval, Log: s.log})
}

// autopilotConfig is the configuration of the region; until the leader has written
// one, that of this server.
func (s *Server) autopilotConfig() nomad.AutopilotConfig {
	if c := s.fsm.State().Snapshot().AutopilotConfig(nil); c != nil {
		return *c
	}
	return *s.cfg.Autopilot
}

// ServerHealth returns the health of the region's servers and the stored features that are not
// served; nil on a server that does not lead.
func (s *Server) ServerHealth() *nomad.OperatorHealthReply {
	health := s.pilot.Health()
	if health == nil {
		return nil
	}
	out := *health
	out.Unserved = s.unserved.Sentences()
	return &out
}

// pilotCluster is what autopilot knows of the others.
type pilotCluster struct{ s *Server }

// Servers are the members of the region.
func (c pilotCluster) Servers() []*nomad.ServerMember {
	var out []*nomad.ServerMember
	for _, m := range c.s.Members() {
		if m.Tags["region"] == c.s.cfg.Region {
			out = append(out, m)
		}
	}
	return out
}

// RaftStats asks a member how far its log is.
func (c pilotCluster) RaftStats(ctx context.Context, m *nomad.ServerMember) (*nomad.RaftStats, error) {
	if m.Tags["id"] == c.s.raft.ID() {
		stats := c.s.raft.Stats()
		term, err := strconv.ParseUint(stats["last_log_term"], 10, 64)
		return &nomad.RaftStats{LastContact: "0", LastTerm: term, LastIndex: c.s.raft.LastIndex()}, err
	}
	out := &nomad.RaftStats{}
	req := &nomad.GenericRequest{QueryOptions: nomad.QueryOptions{Region: c.s.cfg.Region, AllowStale: true}}
	return out, c.s.peers.Call(ctx, peerAddr(m), "Status.RaftStats", req, out)
}

// ForceLeave makes a member that failed one that left; reconcile takes it out of the
// log then.
func (c pilotCluster) ForceLeave(name string) error { return c.s.ForceLeave(name) }
