// Package nodes answers the RPC methods of nodes: registration, heartbeats, updates of their
// allocations, eligibility, drains, and introduction tokens.
//
//	introduction ─▶ Register ─▶ identity ─▶ UpdateStatus (heartbeat) ─▶ Deregister (purge)
//
// An agent with a key pair signs its registration, and a challenge makes each signature good for once
// (challenge.go). The node is then bound to the key (key.go).
//
// A node may only change itself and report its own allocations. Only one agent at a time may use
// the ID of a node (session.go). The heartbeat timers are in nomad/heartbeat.
package nodes

import (
	"cmp"
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Heartbeats manages the heartbeat timers of nodes.
type Heartbeats interface {
	// Reset restarts the timer of a node and returns the TTL of the next heartbeat.
	Reset(node string) time.Duration
	// Clear stops the timer of a node.
	Clear(node string)
	// UntilMissed returns the time after which a node counts as silent if it sends no further
	// heartbeat. It is zero if the node is silent already.
	UntilMissed(node string) time.Duration
	// SetIdentityExpiry records when the identity of a node expires.
	SetIdentityExpiry(node string, ends time.Time)
}

// Plans orders changes of nodes and the commits of plans (plan.Applier).
type Plans interface {
	// Between calls change while no plan is between its check and its commit.
	Between(change func() error) error
}

// Config configures a Service.
type Config struct {
	// AuthoritativeRegion is the region that Region replicates from. It is Region itself or
	// "" if there is none.
	AuthoritativeRegion string
	Introduction        Introduction
	Heartbeats          Heartbeats
	Plans               Plans
}

// Service handles the RPC methods of nodes.
type Service struct {
	*handler.Core
	cfg        Config
	calls      callNumbers
	challenges *challenges
	reports    reports
}

// betweenPlans writes a log entry after which no plan places allocations on a node: each plan is checked after it or
// committed before it.
func (s *Service) betweenPlans(ctx context.Context, t message.CommandType, entry any) (index uint64, err error) {
	err = s.cfg.Plans.Between(func() (err error) {
		index, err = s.Apply(ctx, t, entry)
		return err
	})
	return index, err
}

// New returns a Service. It sets the defaults of the config.
func New(core *handler.Core, cfg Config) *Service {
	i := &cfg.Introduction
	i.Enforcement = cmp.Or(i.Enforcement, idtoken.EnforcementWarn)
	i.DefaultTTL = cmp.Or(i.DefaultTTL, defaultIntroductionTTL)
	i.MaxTTL = cmp.Or(i.MaxTTL, maxIntroductionTTL)
	return &Service{Core: core, cfg: cfg, challenges: newChallenges()}
}
