// Package autopilot keeps the servers of a region while one of them leads: it gives
// new servers their vote once they are stable, takes those that died out of the
// cluster, and says how each of them is. The rules are those of
// hashicorp/raft-autopilot; this package tells the library what it must know.
//
//	joins ──▶ no vote ──healthy for server_stabilization_time──▶ voter ──dies──▶ removed
//	             │                                                 ▲  │            ▲
//	             ├──non_voting_server: stays so, or loses its vote─┴──┘            │
//	             └──dies───────────────────────────────────────────────────────────┘
//
// A server that died is removed only while cleanup_dead_servers is on, min_quorum
// voters remain, and the voters that are healthy are a quorum already: a removal that
// could not be committed would count as soon as it is written, and shut out those
// that come back. Servers that left are not this package's business: the server takes
// them out at once.
//
// It writes nothing but the configuration of Raft, and forgets everything at the end
// of a term.
//
// Run owns the goroutines: the two of the library, and one that removes.
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
)

// defaultInterval is the time between two looks at the servers.
const defaultInterval = 2 * time.Second

// maxRemovals is how many removals may wait; more are found again at the next look.
const maxRemovals = 16

// Cluster is what this server knows of the others.
type Cluster interface {
	// Servers are the members of the region, this one among them.
	Servers() []*nomad.ServerMember
	// RaftStats asks a member how far its log is.
	RaftStats(ctx context.Context, m *nomad.ServerMember) (*nomad.RaftStats, error)
	// ForceLeave makes a member that failed one that left.
	ForceLeave(name string) error
}

// Config is what a Pilot is made of.
type Config struct {
	// ID is the UUID of this server.
	ID      string
	Raft    library.Raft
	Cluster Cluster
	// Settings are those of now; they are asked for at every look.
	Settings func() nomad.AutopilotConfig
	// Interval is the time between two looks at the servers. Default 2 s.
	Interval time.Duration
	Log      *slog.Logger
}

// Pilot keeps the servers while this one leads.
type Pilot struct {
	cfg      Config
	log      *slog.Logger
	library  *library.Autopilot
	promoter *promoter
	remove   chan string // names of members that died

	mu    sync.Mutex
	heard map[raft.ServerID]heard
	well  bool // what the last look said of the whole
}

// heard is what a server said of itself last.
type heard struct {
	stats library.ServerStats
	at    time.Time
}

// New returns a Pilot that waits for Run.
func New(cfg Config) *Pilot {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pilot{cfg: cfg, log: cfg.Log, remove: make(chan string, maxRemovals), heard: map[raft.ServerID]heard{}, well: true,
		promoter: &promoter{raft: cfg.Raft, health: map[raft.ServerID]library.ServerHealth{}}}
	p.library = library.New(told{cfg.Raft, cfg.Log}, delegate{p}, library.WithPromoter(p.promoter),
		library.WithUpdateInterval(cfg.Interval), library.WithReconcileInterval(cfg.Interval),
		library.WithLogger(consensus.LibraryLogger(cfg.Log)))
	return p
}

// Run keeps the servers until ctx ends. Only the leader may run it.
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
			p.log.Info("removing a server that died", "server", name)
			if err := p.cfg.Cluster.ForceLeave(name); err != nil {
				p.log.Warn("remove a server that died", "server", name, "err", err)
			}
		}
	}
}

// forget drops what was learned in a term that ended.
func (p *Pilot) forget() {
	p.promoter.forget()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard, p.well = map[raft.ServerID]heard{}, true
	for {
		select {
		case <-p.remove:
		default:
			return
		}
	}
}

// observe counts what a look found, and tells when it is another than before.
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

// told says in the log which servers get or lose what.
type told struct {
	library.Raft
	log *slog.Logger
}

// AddVoter implements library.Raft.
func (t told) AddVoter(id raft.ServerID, addr raft.ServerAddress, prev uint64, timeout time.Duration) raft.IndexFuture {
	t.log.Info("a server gets its vote", "server", id, "addr", addr)
	return t.Raft.AddVoter(id, addr, prev, timeout)
}

// DemoteVoter implements library.Raft.
func (t told) DemoteVoter(id raft.ServerID, prev uint64, timeout time.Duration) raft.IndexFuture {
	t.log.Info("a server loses its vote", "server", id)
	return t.Raft.DemoteVoter(id, prev, timeout)
}

// RemoveServer implements library.Raft.
func (t told) RemoveServer(id raft.ServerID, prev uint64, timeout time.Duration) raft.IndexFuture {
	t.log.Info("a server that nobody knows is removed", "server", id)
	return t.Raft.RemoveServer(id, prev, timeout)
}
