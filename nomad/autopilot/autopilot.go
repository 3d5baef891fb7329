// Package autopilot manages the servers of a region while this server is the leader. It promotes
// new servers to voters once they are stable, removes dead servers and reports the health of each
// server. The rules are those of hashicorp/raft-autopilot; this package provides the library with
// its input.
//
//	joins ──▶ no vote ──healthy for server_stabilization_time──▶ voter ──dies──▶ removed
//	             │                                                 ▲  │            ▲
//	             ├──non_voting_server: never votes, or is demoted──┴──┘            │
//	             └──dies───────────────────────────────────────────────────────────┘
//
// A dead server is removed only if cleanup_dead_servers is set, min_quorum voters remain, and the
// healthy voters already are a quorum. A removal that cannot be committed would take effect as soon
// as it is written, and would lock out servers that return. Servers that leave are removed at once
// by package server.
//
// The package writes only the configuration of Raft, and drops its state at the end of a term.
//
// Run owns the goroutines: the two of the library, and one for removals.
package autopilot

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// defaultInterval is the default of Config.Interval.
const defaultInterval = 2 * time.Second

// maxRemovals is the capacity of the removal queue. The next check finds the servers that do not
// fit.
const maxRemovals = 16

// Cluster is the view of the other servers.
type Cluster interface {
	// Servers returns the members of the region, including this server.
	Servers() []*message.ServerMember
	// RaftStats requests the log position of a member.
	RaftStats(ctx context.Context, m *message.ServerMember) (*message.RaftStats, error)
	// ForceLeave changes a failed member to left.
	ForceLeave(name string) error
}

// Config configures a Pilot.
type Config struct {
	// ID is the UUID of this server.
	ID      string
	Raft    library.Raft
	Cluster Cluster
	// Settings returns the current settings; every check calls it.
	Settings func() nomad.AutopilotConfig
	// Interval is the time between two checks of the servers. Default 2 s.
	Interval time.Duration
	Log      *slog.Logger
}

// Pilot manages the servers while this one is the leader.
type Pilot struct {
	cfg      Config
	log      *slog.Logger
	library  *library.Autopilot
	promoter *promoter
	remove   chan string // names of dead members

	mu      sync.Mutex
	answers map[raft.ServerID]lastAnswer
	well    bool // overall health at the last check
}

// lastAnswer is the last answer of a server.
type lastAnswer struct {
	stats library.ServerStats
	at    time.Time
}

// New returns a Pilot.
func New(cfg Config) *Pilot {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pilot{cfg: cfg, log: cfg.Log, remove: make(chan string, maxRemovals), answers: map[raft.ServerID]lastAnswer{}, well: true,
		promoter: &promoter{raft: cfg.Raft, health: map[raft.ServerID]library.ServerHealth{}}}
	p.library = library.New(logged{cfg.Raft, cfg.Log}, delegate{p}, library.WithPromoter(p.promoter),
		library.WithUpdateInterval(cfg.Interval), library.WithReconcileInterval(cfg.Interval),
		library.WithLogger(consensus.LibraryLogger(cfg.Log)))
	return p
}

// Run manages the servers until ctx ends. Only the leader may run it.
func (p *Pilot) Run(ctx context.Context) error {
	p.library.Start(ctx)
	defer func() {
		<-p.library.Stop()
		p.forget()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case name := <-p.remove:
			p.log.Info("removing dead server", "server", name)
			if err := p.cfg.Cluster.ForceLeave(name); err != nil {
				p.log.Warn("remove dead server", "server", name, "err", err)
			}
		}
	}
}

// forget drops the state of a term that ended.
func (p *Pilot) forget() {
	p.promoter.forget()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers, p.well = map[raft.ServerID]lastAnswer{}, true
	for {
		select {
		case <-p.remove:
		default:
			return
		}
	}
}

// observe updates the metrics after a check, and logs a change of health.
func (p *Pilot) observe(s *library.State) {
	healthy := float32(0)
	if s.Healthy {
		healthy = 1
	}
	metrics.SetGauge([]string{"nomad", "autopilot", "healthy"}, healthy)
	metrics.SetGauge([]string{"nomad", "autopilot", "failure_tolerance"}, float32(s.FailureTolerance))
	p.mu.Lock()
	changed := p.well != s.Healthy
	p.well = s.Healthy
	p.mu.Unlock()
	if !changed {
		return
	}
	if s.Healthy {
		p.log.Info("all servers are healthy", "failure_tolerance", s.FailureTolerance)
		return
	}
	var sick []string
	for _, server := range s.Servers {
		if !server.Health.Healthy {
			sick = append(sick, string(server.Server.ID))
		}
	}
	p.log.Warn("servers are not healthy", "servers", sick, "failure_tolerance", s.FailureTolerance)
}

// logged is a library.Raft that logs each change of a server.
type logged struct {
	library.Raft
	log *slog.Logger
}

// AddVoter implements library.Raft.
func (t logged) AddVoter(id raft.ServerID, addr raft.ServerAddress, prev uint64, timeout time.Duration) raft.IndexFuture {
	t.log.Info("promoting server to voter", "server", id, "addr", addr)
	return t.Raft.AddVoter(id, addr, prev, timeout)
}

// DemoteVoter implements library.Raft.
func (t logged) DemoteVoter(id raft.ServerID, prev uint64, timeout time.Duration) raft.IndexFuture {
	t.log.Info("demoting server to non-voter", "server", id)
	return t.Raft.DemoteVoter(id, prev, timeout)
}

// RemoveServer implements library.Raft.
func (t logged) RemoveServer(id raft.ServerID, prev uint64, timeout time.Duration) raft.IndexFuture {
	t.log.Info("removing unknown server", "server", id)
	return t.Raft.RemoveServer(id, prev, timeout)
}
