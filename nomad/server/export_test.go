package server

import (
	"context"
	"time"

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

// Standing and Need are the parts of the decision to search for servers.
type (
	Standing = standing
	Need     = need
)

// NewStanding returns a Standing.
func NewStanding(empty, led bool, peers, expect int) Standing {
	return standing{empty, led, peers, expect}
}

// NewNeed returns the Need of a server that starts.
func NewNeed(start time.Time) *Need { return &need{led: start} }

// Arises calls arises.
func (n *Need) Arises(s Standing, now time.Time) bool { return n.arises(s, now) }
