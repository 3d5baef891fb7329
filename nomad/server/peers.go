package server

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	// nodeConnWithin limits the search for the server with a node's connection.
	nodeConnWithin = 2 * time.Second
	// ownTokenFor is how long a token of this server is reused.
	ownTokenFor = 20 * time.Second
	// mintWithin limits the wait for a signing key.
	mintWithin = 2 * time.Second
)

// leaveHung monitors the previous leaders. If one no longer answers, for example a stopped
// process, it closes the connections to it. Calls forwarded to it then end, and reads are
// repeated at the current leader.
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

// peers gives the handlers access to the region's other servers.
type peers struct{ s *Server }

// NodeServer returns the server with the newest connection of a node.
func (p peers) NodeServer(ctx context.Context, node string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeConnWithin)
	defer cancel()
	req := &message.NodeSpecificRequest{NodeID: node, QueryOptions: message.QueryOptions{Region: p.s.cfg.Region, AllowStale: true}}
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
			var out message.NodeConnQueryResponse
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
		return "", apierror.ErrNoNodeConn
	}
	return best, nil
}

// NodeSession requests the agent session of a node from the server with its newest connection.
func (p peers) NodeSession(ctx context.Context, node string) (string, error) {
	addr, err := p.NodeServer(ctx, node)
	if err != nil {
		return "", err
	}
	token, err := p.s.token(ctx)
	if err != nil {
		return "", err
	}
	req := &message.NodeSpecificRequest{NodeID: node, QueryOptions: message.QueryOptions{Region: p.s.cfg.Region, AuthToken: token}}
	var out message.NodeSessionResponse
	err = p.s.peers.Call(ctx, addr, "NodeIdentity.Session", req, &out)
	return out.ID, err
}

// AsServer makes a call with the identity of this server to the server with a node's newest connection.
func (p peers) AsServer(ctx context.Context, node, method string, req handler.ServerCall, resp any) error {
	addr, err := p.NodeServer(ctx, node)
	if err != nil {
		return err
	}
	if req.Caller().AuthToken, err = p.s.token(ctx); err != nil {
		return err
	}
	return p.s.peers.Call(ctx, addr, method, req, resp)
}

// Call makes a call to another server.
func (p peers) Call(ctx context.Context, addr, method string, req, resp any) error {
	return p.s.peers.Call(ctx, addr, method, req, resp)
}

// Stream opens a stream to another server.
func (p peers) Stream(ctx context.Context, addr, method string) (*rpc.Stream, error) {
	return p.s.peers.Stream(ctx, addr, method)
}

// ownToken caches the identity token of this server.
type ownToken struct {
	mu   sync.Mutex
	made time.Time
	raw  string
}

// token returns an identity token of this server that stays valid for a while.
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
