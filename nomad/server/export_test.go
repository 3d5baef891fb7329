package server

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// OwnToken is the identity with which the server calls others.
func (s *Server) OwnToken(ctx context.Context) (string, error) { return s.token(ctx) }

// RootKeys are those in state.
func (s *Server) RootKeys() []*nomad.RootKey {
	return slices.Collect(s.fsm.State().Snapshot().RootKeys(nil))
}

// Lost waits until the process of the leader at addr is gone, or changed is closed.
func Lost(ctx context.Context, changed <-chan struct{}, addr string) bool {
	s := &Server{peers: rpc.NewPool(rpc.PoolConfig{})}
	defer s.peers.Close()
	return s.lost(ctx, changed, addr)
}

// Apply writes a log entry, as a server of another version does.
func (s *Server) Apply(ctx context.Context, t nomad.MessageType, entry any) error {
	_, _, err := s.raft.Apply(ctx, t, entry)
	return err
}

// Connected reports whether the server has a connection of the node.
func (s *Server) Connected(node string) bool {
	_, ok := s.rpc.NodeConn(node)
	return ok
}

// OtherBuilds is otherBuilds.
var OtherBuilds = otherBuilds

// Store is the current state, as the workers of the server read it.
func (s *Server) Store() *state.Store { return s.fsm.State() }
