package server

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// OwnToken returns the identity token with which the server calls others.
func (s *Server) OwnToken(ctx context.Context) (string, error) { return s.token(ctx) }

// RootKeys returns the root keys in state.
func (s *Server) RootKeys() []*nomad.RootKey {
	return slices.Collect(s.fsm.State().Snapshot().RootKeys(nil))
}

// Lost waits until the process of the leader at addr has ended, or changed is closed.
func Lost(ctx context.Context, changed <-chan struct{}, addr string) bool {
	s := &Server{peers: rpc.NewPool(rpc.PoolConfig{})}
	defer s.peers.Close()
	return s.lost(ctx, changed, addr)
}

// Apply writes a log entry, like a server of another version.
func (s *Server) Apply(ctx context.Context, t nomad.MessageType, entry any) error {
	_, err := s.raft.Apply(ctx, t, entry)
	return err
}

// Connected reports whether the server has a connection of the node.
func (s *Server) Connected(node string) bool {
	_, ok := s.rpc.NodeConn(node)
	return ok
}

// OtherBuilds is otherBuilds.
var OtherBuilds = otherBuilds

// Store returns the current state.
func (s *Server) Store() *state.Store { return s.fsm.State() }

// BrokerEnabled reports whether this server delivers evaluations.
func (s *Server) BrokerEnabled() bool { return s.broker.Enabled() }
