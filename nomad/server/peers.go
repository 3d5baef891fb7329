package server

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	// nodeConnWithin bounds the search for the server that a node is connected to.
	nodeConnWithin = 2 * time.Second
	// ownTokenFor is how long a token of this server's own is used again.
	ownTokenFor = 20 * time.Second
	// mintWithin bounds the wait for a key to sign it.
	mintWithin = 2 * time.Second
)

// leaveHung looks after the leaders of before: one that does not answer any more, as a
// process that is stopped or a machine that is cut off, has its connections closed.
// What was forwarded to it ends then; reads are made again at the leader of now.
func (s *Server) leaveHung(ctx context.Context) error {
	if s.alone() {
		return nil
	}
	for {
		changed := s.raft.LeaderChange()
		before, id := s.Leader()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		if id != "" && id != s.raft.ID() {
			s.peers.Check(before)
		}
	}
}

// peers reaches the other servers of the region for the handlers.
type peers struct{ s *Server }

// NodeServer finds the server that holds the newest connection of a node.
func (p peers) NodeServer(ctx context.Context, node string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeConnWithin)
	defer cancel()
	req := &nomad.NodeSpecificRequest{NodeID: node, QueryOptions: nomad.QueryOptions{Region: p.s.cfg.Region, AllowStale: true}}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		newest time.Time
		best   string
	)
	for _, m := range p.s.aliveIn(p.s.cfg.Region) {
		if m.Tags["id"] == p.s.raft.ID() {
			continue
		}
		addr := peerAddr(m)
		wg.Go(func() {
			var out nomad.NodeConnQueryResponse
			if err := p.s.peers.Call(ctx, addr, "Status.HasNodeConn", req, &out); err != nil || !out.Connected {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if best == "" || out.Established.After(newest) {
				best, newest = addr, out.Established
			}
		})
	}
	wg.Wait()
	if best == "" {
		return "", nomad.ErrNoNodeConn
	}
	return best, nil
}

// NodeSession asks the server that holds the newest connection of a node for the
// session of its agent.
func (p peers) NodeSession(ctx context.Context, node string) (string, error) {
	addr, err := p.NodeServer(ctx, node)
	if err != nil {
		return "", err
	}
	token, err := p.s.token(ctx)
	if err != nil {
		return "", err
	}
	req := &nomad.NodeSpecificRequest{NodeID: node, QueryOptions: nomad.QueryOptions{Region: p.s.cfg.Region, AuthToken: token}}
	var out nomad.NodeSessionResponse
	err = p.s.peers.Call(ctx, addr, "NodeIdentity.Session", req, &out)
	return out.ID, err
}

// Call makes a call at another server.
func (p peers) Call(ctx context.Context, addr, method string, req, resp any) error {
	return p.s.peers.Call(ctx, addr, method, req, resp)
}

// Stream opens a stream to another server.
func (p peers) Stream(ctx context.Context, addr, method string) (*rpc.Stream, error) {
	return p.s.peers.Stream(ctx, addr, method)
}

// ownToken is the identity with which this server calls others.
type ownToken struct {
	mu   sync.Mutex
	made time.Time
	raw  string
}

// token returns an identity of this server that is good for a while.
func (s *Server) token(ctx context.Context) (string, error) {
	o := &s.own
	o.mu.Lock()
	raw, made := o.raw, o.made
	o.mu.Unlock()
	now := time.Now()
	if raw != "" && now.Sub(made) < ownTokenFor {
		return raw, nil
	}
	ctx, cancel := context.WithTimeout(ctx, mintWithin)
	defer cancel()
	token, err := s.issuer.Mint(ctx, s.issuer.Server(s.raft.ID(), now))
	if err != nil {
		return "", err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.raw, o.made = token.Reveal(), now
	return o.raw, nil
}
