package autopilot

import (
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"
)

// nonVoter is the type of servers that never vote.
const nonVoter library.NodeType = "non-voter"

// typeOf returns the type of a server by its tags.
func typeOf(tags map[string]string) library.NodeType {
	if tags["nonvoter"] == "1" {
		return nonVoter
	}
	return library.NodeVoter
}

// promoter decides which servers vote and which dead servers may be removed. It extends the
// library's promoter: non-voting servers, a stabilization time that also applies at the start of a
// term, and no removal without a quorum.
type promoter struct {
	library.StablePromoter
	raft library.Raft

	mu     sync.Mutex
	health map[raft.ServerID]library.ServerHealth // at the last check
}

// GetServerExt is called for each server in a check and corrects its StableSince. Version 0.3.0 of
// the library compares the health of a server with itself, so that it never resets StableSince
// after a server was unhealthy.
func (p *promoter) GetServerExt(_ *library.Config, s *library.ServerState) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.health[s.Server.ID]
	if last.Healthy != s.Health.Healthy || !ok {
		last = library.ServerHealth{Healthy: s.Health.Healthy, StableSince: time.Now()}
		p.health[s.Server.ID] = last
	}
	s.Health.StableSince = last.StableSince
	return nil
}

// GetStateExt is called at the end of a check. It drops servers that no longer exist.
func (p *promoter) GetStateExt(_ *library.Config, s *library.State) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.health, func(id raft.ServerID, _ library.ServerHealth) bool { return s.Servers[id] == nil })
	return nil
}

// forget drops the state of a term that ended.
func (p *promoter) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.health)
}

// GetNodeTypes returns the type of each server. An unknown one is a voter.
func (p *promoter) GetNodeTypes(_ *library.Config, s *library.State) map[raft.ServerID]library.NodeType {
	out := map[raft.ServerID]library.NodeType{}
	for id, server := range s.Servers {
		out[id] = typeOf(server.Server.Meta)
	}
	return out
}

// CalculatePromotionsAndDemotions promotes stable servers and demotes servers that must not vote. A
// leader that must not vote transfers leadership first.
func (p *promoter) CalculatePromotionsAndDemotions(c *library.Config, s *library.State) library.RaftChanges {
	var changes library.RaftChanges
	now := time.Now()
	for id, server := range s.Servers {
		switch wanted := typeOf(server.Server.Meta); {
		case wanted == library.NodeVoter && server.State == library.RaftNonVoter && server.Health.IsStable(now, c.ServerStabilizationTime):
			changes.Promotions = append(changes.Promotions, id)
		case wanted == nonVoter && server.State == library.RaftVoter && len(changes.Demotions) == 0 && canSpare(s, id):
			changes.Demotions = append(changes.Demotions, id)
		}
	}
	if leader := s.Servers[s.Leader]; leader != nil && typeOf(leader.Server.Meta) == nonVoter {
		changes.Leader = successor(s)
	}
	return changes
}

// canSpare reports whether the healthy voters remain a quorum without the server.
func canSpare(s *library.State, id raft.ServerID) bool {
	healthy := 0
	for _, voter := range s.Voters {
		if server := s.Servers[voter]; voter != id && server != nil && server.Health.Healthy {
			healthy++
		}
	}
	return healthy > 0 && healthy > (len(s.Voters)-1)/2
}

// successor returns a healthy voter that may lead, or "".
func successor(s *library.State) raft.ServerID {
	for _, id := range s.Voters { // the longest stable first
		if server := s.Servers[id]; id != s.Leader && server.Health.Healthy && typeOf(server.Server.Meta) == library.NodeVoter {
			return id
		}
	}
	return ""
}

// FilterFailedServerRemovals keeps all voters unless the healthy ones are a quorum of the current
// Raft configuration.
func (p *promoter) FilterFailedServerRemovals(_ *library.Config, s *library.State, failed *library.FailedServers) *library.FailedServers {
	f := p.raft.GetConfiguration()
	dead := map[raft.ServerID]bool{}
	for _, server := range failed.FailedVoters {
		dead[server.ID] = true
	}
	for _, id := range failed.StaleVoters {
		dead[id] = true
	}
	voters, healthy := 0, 0
	if f.Error() == nil {
		for _, server := range f.Configuration().Servers {
			if server.Suffrage != raft.Voter {
				continue
			}
			voters++
			if known := s.Servers[server.ID]; !dead[server.ID] && known != nil && known.Health.Healthy {
				healthy++
			}
		}
	}
	if healthy <= voters/2 {
		failed.FailedVoters, failed.StaleVoters = nil, nil
	}
	return failed
}
