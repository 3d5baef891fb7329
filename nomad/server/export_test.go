package server

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Lost waits until the process of the leader at addr has ended, or changed is closed.
func Lost(ctx context.Context, changed <-chan struct{}, addr string) bool {
	s := &Server{peers: rpc.NewPool(rpc.PoolConfig{})}
	defer s.peers.Close()
	return s.lost(ctx, changed, addr)
}

// OtherBuilds is otherBuilds.
var OtherBuilds = otherBuilds

// BrokerEnabled reports whether this server delivers evaluations.
func (s *Server) BrokerEnabled() bool { return s.broker.Enabled() }
