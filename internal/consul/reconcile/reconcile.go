// Package reconcile keeps the services and checks of this agent in the local agent of Consul.
package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
)

// Service is a service that is wanted in Consul. It must not be modified after Set.
type Service struct {
	// Registration has the ID, and its Checks have a CheckID each.
	Registration *api.AgentServiceRegistration
	// Token returns the token that registers the service and updates its TTL checks. nil means the token of the agent.
	// While it returns "", the service waits: it is never registered with another token.
	Token func() string
}

// State is how far a service is registered.
type State struct {
	ID, Name   string
	Registered bool      // Consul has it as it is wanted
	Since      time.Time // of Registered, or of the first failure in a row
	Failures   int       // in a row
	Err        error     // of the last attempt, without answers of Consul that could contain a token
}

// Status is the status of a check in Consul.
type Status struct {
	CheckID string
	Status  string // api.HealthPassing, HealthWarning or HealthCritical
	Output  string
}

// Config configures a Reconciler.
type Config struct {
	Agent *consul.Agent
	// Reap removes services of tasks that nobody wants, such as those of an earlier agent that was killed. Only an agent
	// with a client does so.
	Reap bool
	// Failed is called after the third failed attempt in a row for a service, and again after the success that follows.
	// It must not block. nil for none.
	Failed func(owner string, s State)
	Log    *slog.Logger
}

// Reconciler is the desired state of this agent. Its methods may be called concurrently, also before and after Run.
type Reconciler struct{ cfg Config }

// New returns a Reconciler without services.
func New(cfg Config) *Reconciler { return &Reconciler{cfg: cfg} }

// Run keeps Consul as wanted until ctx ends. It deregisters nothing at its end.
func (r *Reconciler) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// Set replaces the services of an owner. It does not wait. New and changed services are registered first, then the
// others are removed.
func (r *Reconciler) Set(owner string, services []*Service) {}

// Remove removes the services of an owner. It waits until Consul has acknowledged this, ctx ends or one second has
// passed, and reports whether it has. Run tries again in any case.
func (r *Reconciler) Remove(ctx context.Context, owner string) bool { return true }

// Drop removes the services of an owner and does not wait.
func (r *Reconciler) Drop(owner string) {}

// Update sets the status of a TTL check of a registered service. It does not wait. A failed update is repeated. Only the
// last status of a check is sent.
func (r *Reconciler) Update(s Status) {}

// States returns the states of an owner's services, in the order of Set.
func (r *Reconciler) States(owner string) []State { return nil }

// Watch calls changed with the statuses of the checks of an owner's services that Consul has, after each change of one
// of them, until end is called. Checks that Consul does not have are left out. While anything is watched, Run asks for
// all checks of the agent once per second. A failed request changes nothing.
func (r *Reconciler) Watch(owner string, changed func([]Status)) (end func()) { return func() {} }

// Leave deregisters the services of an owner at the end of the agent, after Run has ended. It takes at most the time of
// ctx, and does not try if Consul has never answered.
func (r *Reconciler) Leave(ctx context.Context, owner string) error { return nil }
