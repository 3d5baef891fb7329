// Package evals answers the RPC methods of evaluations and plans.
//
//	worker ─▶ Dequeue ─▶ schedules ─▶ SubmitPlan ─▶ Update ─▶ Ack, or Nack to try again
//
// Workers and the leader call most of them; only the reads are for users. A worker proves with
// the token of a delivery that it still holds the evaluation. Queues are in nomad/broker, and
// this package never schedules.
package evals

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
)

// Plans submits plans to the plan queue.
type Plans interface {
	Submit(ctx context.Context, plan *nomad.Plan) (*nomad.PlanResult, error)
}

// Config configures a Service.
type Config struct {
	Blocked *broker.Blocked
	Plans   Plans
	// LeaderToken returns the token of the leader's own calls, or "" on other servers. Core
	// evaluations carry it to their worker.
	LeaderToken func() string
}

// Service handles the RPC methods of evaluations and plans.
type Service struct {
	*handler.Core
	cfg Config
}

// New returns a Service.
func New(core *handler.Core, cfg Config) *Service { return &Service{Core: core, cfg: cfg} }
