package server

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
)

// holdTimeout is how long a request waits for a leader that is ready
// (compat/wire.md section 7).
const holdTimeout = 5 * time.Second

// Route says which server answers a request. A request for the leader is held
// until there is one.
func (s *Server) Route(ctx context.Context, where rpc.Where, env nomad.Envelope) (string, error) {
	if env.Region != "" && env.Region != s.cfg.Region {
		return "", nomad.ErrNoRegionPath
	}
	if where != rpc.Leader || !env.Write && env.AllowStale || s.leading.isOpen() {
		return "", nil
	}
	hold, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	if err := s.leading.wait(hold); err == nil {
		return "", nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if s.raft.IsLeader() {
		return "", nomad.ErrNotReady
	}
	return "", nomad.ErrNoLeader
}

// patient is the authority that first waits until this server knows what was in
// its log: a node or a workload must not be refused because the server has just
// started and has not read its keys and nodes yet.
type patient struct {
	*authz.Authority
	caughtUp *gate
}

// Authenticate says who holds the token.
func (p patient) Authenticate(ctx context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*nomad.AuthenticatedIdentity, error) {
	if token != "" && !p.caughtUp.isOpen() {
		hold, cancel := context.WithTimeout(ctx, holdTimeout)
		defer cancel()
		if err := p.caughtUp.wait(hold); err != nil {
			return nil, nomad.ErrNotReady
		}
	}
	return p.Authority.Authenticate(ctx, token, rule, conn)
}

// Contact says whether a leader is known, and how long ago it was heard.
func (s *Server) Contact() (known bool, ago time.Duration) {
	if s.raft.IsLeader() {
		return true, 0
	}
	_, id := s.raft.Leader()
	return id != "", time.Since(s.raft.LastContact())
}

// Leader returns the RPC address and the ID of the leader, "" when none is known.
func (s *Server) Leader() (addr, id string) {
	addr, id = s.raft.Leader()
	if id == s.raft.ID() {
		addr = s.advertise // the log may hold one of an earlier start
	}
	return addr, id
}

// Self is this server as members are listed (compat/wire.md section 13).
func (s *Server) Self() *nomad.ServerMember {
	host, port, _ := net.SplitHostPort(s.advertise) // checked when it was bound
	gossip, gossipPort := host, strconv.Itoa(s.cfg.SerfPort)
	if s.cfg.SerfAdvertise != "" {
		gossip, gossipPort, _ = net.SplitHostPort(s.cfg.SerfAdvertise) // checked by complete
	}
	serf, _ := strconv.ParseUint(gossipPort, 10, 16) // as above
	return &nomad.ServerMember{
		Name: s.cfg.Name + "." + s.cfg.Region, Addr: net.ParseIP(gossip), Port: uint16(serf), Status: "alive",
		Tags: map[string]string{"role": "nomad", "region": s.cfg.Region, "dc": s.cfg.Datacenter, "build": s.cfg.Version,
			"revision": s.cfg.Revision, "vsn": "1", "raft_vsn": "3", "id": s.raft.ID(), "rpc_addr": host, "port": port, "bootstrap": "1"},
		ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4,
	}
}

// Stats are the numbers that agent self shows.
func (s *Server) Stats() map[string]map[string]string {
	addr, _ := s.Leader()
	evals := s.broker.Stats()
	return map[string]map[string]string{
		"nomad": {"server": "true", "leader": strconv.FormatBool(s.raft.IsLeader()), "leader_addr": addr,
			"bootstrap": "true", "known_regions": "1"},
		"raft":   s.raft.Stats(),
		"broker": {"ready": strconv.Itoa(evals.Ready), "unacked": strconv.Itoa(evals.Unacked)},
	}
}

// gate is open while this server leads and is ready.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
	isUp   bool
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isUp {
		g.isUp = true
		close(g.opened)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isUp {
		g.isUp = false
		g.opened = make(chan struct{})
	}
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isUp
}

// wait waits until the gate is open.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
