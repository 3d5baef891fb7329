package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// holdTimeout is how long a caller with a token waits until this server can identify it, as in
// Nomad 2.0.
const holdTimeout = 5 * time.Second

// confirmPause is the pause between two attempts to confirm leadership.
const confirmPause = 25 * time.Millisecond

// Route returns the address of the server that answers a request. A request for the leader
// waits for a ready leader, or for the end of ctx. Requests cannot circulate: each server
// forwards to the leader of a later term, and between regions a request is forwarded only once.
// A consistent read is answered here only after a majority confirmed this server's leadership.
func (s *Server) Route(ctx context.Context, where rpc.Where, env message.Envelope) (string, error) {
	if env.Region != "" && env.Region != s.cfg.Region {
		if env.Forwarded {
			return "", apierror.ErrNoRegionPath
		}
		addr, err := s.regionServer(env.Region)
		if err == nil {
			s.calls.Forwarded(env.Region)
		}
		return addr, err
	}
	if where != rpc.Leader || !env.Write && env.AllowStale {
		return "", nil
	}
	for {
		changed, ready := s.raft.LeaderChange(), s.leading.whenOpen()
		var again <-chan time.Time
		if s.leading.isOpen() {
			if env.Write || s.Confirm(ctx) == nil {
				return "", nil
			}
			again, ready = time.After(confirmPause), nil
		}
		if addr, id := s.Leader(); id != "" && id != s.raft.ID() {
			return addr, nil
		}
		select {
		case <-changed:
		case <-ready:
		case <-again:
		case <-ctx.Done():
			if s.raft.IsLeader() {
				return "", apierror.ErrNotReady
			}
			return "", s.noLeader()
		}
	}
}

// noLeader returns the error of a call that found no leader in time. It includes a failure of
// this server's own disk.
func (s *Server) noLeader() error {
	if cause := s.raft.Unwritable(); cause != nil {
		return fmt.Errorf("%w: %w", apierror.ErrNoLeader, cause)
	}
	return apierror.ErrNoLeader
}

// Confirm returns nil if this server is the leader and everything acknowledged before the call,
// by any leader, is in state.
func (s *Server) Confirm(ctx context.Context) error {
	established := s.term.Load()
	term, err := s.raft.Confirm(ctx)
	switch {
	case errors.Is(err, consensus.ErrUnconfirmed):
		return fmt.Errorf("%w: %w", apierror.ErrNoLeader, err)
	case err == nil && term != established:
		return apierror.ErrNotReady // it lost and regained leadership: state may be incomplete
	}
	return err
}

// Access authenticates a token and returns the caller and its rights.
func (s *Server) Access(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	auth := patient{s.authority, s.caughtUp}
	id, err := auth.Authenticate(ctx, token, rpc.Token, nil)
	if err != nil {
		return nil, nil, err
	}
	access, err := auth.Access(ctx, id)
	return id, access, err
}

// patient is an Authenticator that first waits until this server has applied its log. A node or
// workload must not be refused because the server has just started and has not read its keys
// and nodes yet.
type patient struct {
	*authz.Authority
	caughtUp *gate
}

// Authenticate implements rpc.Authenticator.
func (p patient) Authenticate(ctx context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	if token != "" && !p.caughtUp.isOpen() {
		hold, cancel := context.WithTimeout(ctx, holdTimeout)
		defer cancel()
		if err := p.caughtUp.wait(hold); err != nil {
			return nil, apierror.ErrNotReady
		}
	}
	return p.Authority.Authenticate(ctx, token, rule, conn)
}

// Contact reports whether there is a known leader, and the time since the last contact with it.
func (s *Server) Contact() (known bool, ago time.Duration) {
	if s.raft.IsLeader() {
		return true, 0
	}
	_, id := s.raft.Leader()
	return id != "", time.Since(s.raft.LastContact())
}

// Leader returns the RPC address and the ID of the leader, or empty strings.
func (s *Server) Leader() (addr, id string) {
	addr, id = s.raft.Leader()
	if id == s.raft.ID() {
		return s.peer, id // the log may contain an old address
	}
	if id != "" {
		if now := s.locate(id); now != "" {
			addr = now
		}
	}
	return addr, id
}

// RaftServers lists the servers in the Raft configuration.
func (s *Server) RaftServers() ([]*message.RaftServer, error) {
	servers, err := s.raft.Servers()
	if err != nil {
		return nil, err
	}
	_, leader := s.Leader()
	members := map[string]*message.ServerMember{}
	for _, m := range s.Members() {
		if m.Tags["region"] == s.cfg.Region && (members[m.Tags["id"]] == nil || m.Status == gossip.Alive) {
			members[m.Tags["id"]] = m
		}
	}
	out := make([]*message.RaftServer, 0, len(servers))
	for _, server := range servers {
		id := string(server.ID)
		shown := &message.RaftServer{ID: id, Node: "(unknown)", Address: string(server.Address), Leader: id == leader,
			Voter: server.Suffrage == raft.Voter, RaftProtocol: "unknown"}
		if m := members[id]; m != nil {
			shown.Node, shown.RaftProtocol = m.Name, m.Tags["raft_vsn"]
		}
		if id == s.raft.ID() {
			shown.Address = s.peer
		}
		out = append(out, shown)
	}
	return out, nil
}

// RemoveServer removes a server from the Raft configuration.
func (s *Server) RemoveServer(ctx context.Context, id string) error {
	return s.raft.RemoveServer(ctx, id)
}

// TransferLeadership transfers leadership to another server.
func (s *Server) TransferLeadership(ctx context.Context, id, addr string) error {
	return s.raft.TransferLeadership(ctx, id, addr)
}

// Stats returns the statistics for agent self.
func (s *Server) Stats() map[string]map[string]string {
	addr, _ := s.Leader()
	evals := s.broker.Stats()
	open, closed := s.ring.Count()
	return map[string]map[string]string{
		"nomad": {"server": "true", "leader": strconv.FormatBool(s.raft.IsLeader()), "leader_addr": addr,
			"bootstrap": strconv.FormatBool(s.cfg.BootstrapExpect == 1 || s.alone()), "known_regions": strconv.Itoa(len(s.regions()))},
		"raft":    s.raft.Stats(),
		"keyring": {"open": strconv.Itoa(open), "closed": strconv.Itoa(closed)},
		"broker":  {"ready": strconv.Itoa(evals.Ready), "unacked": strconv.Itoa(evals.Unacked)},
	}
}

// regions returns the regions of all known servers.
func (s *Server) regions() map[string]bool {
	out := map[string]bool{s.cfg.Region: true}
	for _, m := range s.Members() {
		out[m.Tags["region"]] = true
	}
	return out
}

// gate is open while this server is a ready leader.
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

// whenOpen returns a channel that is closed while the gate is open.
func (g *gate) whenOpen() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// wait waits for the gate to open.
func (g *gate) wait(ctx context.Context) error {
	select {
	case <-g.whenOpen():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal is a broadcast to all waiters.
type signal struct {
	mu    sync.Mutex
	fired chan struct{}
}

func newSignal() *signal { return &signal{fired: make(chan struct{})} }

// fire wakes all waiters.
func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.fired)
	s.fired = make(chan struct{})
}

// wait returns a channel that is closed at the next fire.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired
}
