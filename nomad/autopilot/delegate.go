package autopilot

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"

	"github.com/open-nomad/open-nomad/nomad"
)

// never is the contact of a server that has had none; it is not healthy.
const never = time.Duration(-1)

// delegate tells the library what it must know; it implements
// library.ApplicationIntegration.
type delegate struct{ p *Pilot }

// AutopilotConfig returns the settings.
func (d delegate) AutopilotConfig() *library.Config {
	c := d.p.cfg.Settings()
	return &library.Config{CleanupDeadServers: c.CleanupDeadServers, LastContactThreshold: c.LastContactThreshold,
		MaxTrailingLogs: c.MaxTrailingLogs, MinQuorum: c.MinQuorum, ServerStabilizationTime: c.ServerStabilizationTime}
}

// NotifyState is told what a look found.
func (d delegate) NotifyState(s *library.State) { d.p.observe(s) }

// KnownServers lists the members that have not left. Of two with the same ID, an old
// and a new name, the one that answers counts.
func (d delegate) KnownServers() map[raft.ServerID]*library.Server {
	out := map[raft.ServerID]*library.Server{}
	for _, m := range d.p.cfg.Cluster.Servers() {
		status := statusOf(nomad.MemberStatusOf(m.Status))
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

// statusOf translates what gossip says. Who is just leaving still is there.
func statusOf(s nomad.MemberStatus) library.NodeStatus {
	switch s {
	case nomad.MemberAlive, nomad.MemberLeaving:
		return library.NodeAlive
	case nomad.MemberFailed:
		return library.NodeFailed
	case nomad.MemberLeft:
		return library.NodeLeft
	}
	return library.NodeUnknown
}

// FetchServerStats asks the servers how far their logs are. For one that does not
// answer, its last answer counts, with the time since then as its last contact.
func (d delegate) FetchServerStats(ctx context.Context, servers map[raft.ServerID]*library.Server) map[raft.ServerID]*library.ServerStats {
	members := map[raft.ServerID]*nomad.ServerMember{}
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
			stats := d.p.hear(id, answer, err)
			mu.Lock()
			defer mu.Unlock()
			out[id] = stats
		})
	}
	wg.Wait()
	d.p.forgetAllBut(members)
	return out
}

// hear notes an answer of a server, or that none came.
func (p *Pilot) hear(id raft.ServerID, answer *nomad.RaftStats, err error) *library.ServerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.log.Debug("a server does not say how far its log is", "server", id, "err", err)
		last, ok := p.heard[id]
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
	p.heard[id] = heard{stats, time.Now()}
	return &stats
}

// forgetAllBut drops the answers of servers that are no longer asked.
func (p *Pilot) forgetAllBut(asked map[raft.ServerID]*nomad.ServerMember) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.heard {
		if asked[id] == nil {
			delete(p.heard, id)
		}
	}
}

// RemoveFailedServer makes a server that died one that left; the server then takes
// it out of the log.
func (d delegate) RemoveFailedServer(s *library.Server) {
	select {
	case d.p.remove <- s.Name:
	default: // it is found again at the next look
	}
}
