package autopilot

import (
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// Health returns the health of the servers at the last check. Before the first check, and on a
// server that is not the leader, it returns nil.
func (p *Pilot) Health() *message.OperatorHealthReply {
	s := p.library.GetState()
	if s == nil || s.Leader == "" {
		return nil
	}
	statuses := map[raft.ServerID]message.MemberStatus{}
	for _, m := range p.cfg.Cluster.Servers() {
		id, status := raft.ServerID(m.Tags["id"]), message.MemberStatusOf(m.Status)
		if statuses[id] != message.MemberAlive {
			statuses[id] = status
		}
	}
	out := &message.OperatorHealthReply{Healthy: s.Healthy, FailureTolerance: s.FailureTolerance, Leader: string(s.Leader), Voters: []string{}}
	for _, id := range s.Voters {
		out.Voters = append(out.Voters, string(id))
	}
	for id, server := range s.Servers {
		if typeOf(server.Server.Meta) == nonVoter {
			out.ReadReplicas = append(out.ReadReplicas, string(id))
		}
		out.Servers = append(out.Servers, healthOf(server, statuses[id]))
	}
	slices.Sort(out.ReadReplicas)
	slices.SortFunc(out.Servers, func(a, b message.ServerHealth) int {
		return strings.Compare(a.Name+a.ID, b.Name+b.ID)
	})
	return out
}

func healthOf(s *library.ServerState, status message.MemberStatus) message.ServerHealth {
	return message.ServerHealth{ID: string(s.Server.ID), Name: s.Server.Name, Address: string(s.Server.Address), SerfStatus: status,
		Version: s.Server.Version, Leader: s.State == library.RaftLeader, LastContact: s.Stats.LastContact, LastTerm: s.Stats.LastTerm,
		LastIndex: s.Stats.LastIndex, Healthy: s.Health.Healthy, Voter: s.HasVotingRights(), StableSince: s.Health.StableSince.UTC()}
}
