package autopilot

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// never is the last contact of a server without any; it is unhealthy.
const never = time.Duration(-1)

// delegate provides the input of the library. It implements library.ApplicationIntegration.
type delegate struct{ p *Pilot }

// AutopilotConfig returns the settings.
func (d delegate) AutopilotConfig() *library.Config {
	c := d.p.cfg.Settings()
	return &library.Config{CleanupDeadServers: c.CleanupDeadServers, LastContactThreshold: c.LastContactThreshold,
		MaxTrailingLogs: c.MaxTrailingLogs, MinQuorum: c.MinQuorum, ServerStabilizationTime: c.ServerStabilizationTime}
}

// NotifyState receives the result of a check.
func (d delegate) NotifyState(s *library.State) { d.p.observe(s) }

// KnownServers lists the members that have not left. If two have the same ID, after a rename, the
// one that is alive counts.
func (d delegate) KnownServers() map[raft.ServerID]*library.Server {
	out := map[raft.ServerID]*library.Server{}
	for _, m := range d.p.cfg.Cluster.Servers() {
		status := statusOf(message.MemberStatusOf(m.Status))
		id := raft.ServerID(m.Tags["id"])
		if known := out[id]; status == library.NodeLeft || known != nil && known.NodeStatus == library.NodeAlive {
			continue
		}
		out[id] = &library.Server{ID: id, Name: m.Name, Address: raft.ServerAddress(net.JoinHostPort(m.Addr.String(), m.Tags["port"])),
			NodeStatus: status, Version: m.Tags["build"], Meta: m.Tags, RaftVersion: 3,
			IsLeader: string(id) == d.p.cfg.ID, NodeType: typeOf(m.Tags)}
	}
	return out
}

// statusOf converts a gossip status. A leaving server still counts as alive.
func statusOf(s message.MemberStatus) library.NodeStatus {
	switch s {
	case message.MemberAlive, message.MemberLeaving:
		return library.NodeAlive
	case message.MemberFailed:
		return library.NodeFailed
	case message.MemberLeft:
		return library.NodeLeft
	}
	return library.NodeUnknown
}

// FetchServerStats requests the log position of each server. If a server does not answer, its last
// answer is used, and its last contact is the time since then.
func (d delegate) FetchServerStats(ctx context.Context, servers map[raft.ServerID]*library.Server) map[raft.ServerID]*library.ServerStats {
	members := map[raft.ServerID]*message.ServerMember{}
	for _, m := range d.p.cfg.Cluster.Servers() {
		if server := servers[raft.ServerID(m.Tags["id"])]; server != nil && server.Name == m.Name {
			members[server.ID] = m
		}
	}
	out := map[raft.ServerID]*library.ServerStats{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for id, m := range members {
		wg.Go(func() {
			answer, err := d.p.cfg.Cluster.RaftStats(ctx, m)
			stats := d.p.record(id, answer, err)
			mu.Lock()
			defer mu.Unlock()
			out[id] = stats
		})
	}
	wg.Wait()
	d.p.forgetAllBut(members)
	return out
}

// record stores an answer of a server, or its absence.
func (p *Pilot) record(id raft.ServerID, answer *message.RaftStats, err error) *library.ServerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.log.Debug("fetch Raft stats", "server", id, "err", err)
		last, ok := p.answers[id]
		stats := last.stats
		if stats.LastContact = never; ok {
			stats.LastContact = time.Since(last.at)
		}
		return &stats
	}
	stats := library.ServerStats{LastContact: never, LastTerm: answer.LastTerm, LastIndex: answer.LastIndex}
	if ago, err := time.ParseDuration(answer.LastContact); err == nil {
		stats.LastContact = ago
	}
	p.answers[id] = lastAnswer{stats, time.Now()}
	return &stats
}

// forgetAllBut drops the answers of other servers.
func (p *Pilot) forgetAllBut(asked map[raft.ServerID]*message.ServerMember) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.answers {
		if asked[id] == nil {
			delete(p.answers, id)
		}
	}
}

// RemoveFailedServer changes a dead server to left; the server then removes it from the Raft
// configuration.
func (d delegate) RemoveFailedServer(s *library.Server) {
	select {
	case d.p.remove <- s.Name:
	default: // the next check finds it again
	}
}
