package consul

import (
	"context"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
)

// Reconciler registers what is set in Consul (reconcile.Reconciler).
type Reconciler interface {
	Set(owner string, services []*reconcile.Service)
	Remove(ctx context.Context, owner string) bool
	Drop(owner string)
}

// Tokens has the tokens of Consul of one allocation.
type Tokens interface {
	// Token returns a function that returns the secret of the token of an identity, "" while there is none. workload is
	// the name of the task, or "" for the group.
	Token(identity, workload string) (secret func() string)
	// Invalidate reports a secret that Consul does not have.
	Invalidate(secret string)
}

// Registrar registers the services of one allocation in Consul.
type Registrar struct {
	services Reconciler
	tokens   Tokens // nil for none
}

// New returns the Registrar of an allocation. Without tokens, services with an identity are never registered.
func New(services Reconciler, tokens Tokens) *Registrar { return &Registrar{services, tokens} }

// Set replaces the services of a workload. It does not wait.
func (r *Registrar) Set(owner string, w *service.Workload) error {
	services, err := Services(w, r.tokens)
	if err != nil {
		return err
	}
	r.services.Set(owner, services)
	return nil
}

// Remove removes the services of an owner. It waits until Consul has acknowledged this, ctx ends or one second has
// passed, and reports whether it has.
func (r *Registrar) Remove(ctx context.Context, owner string) bool {
	return r.services.Remove(ctx, owner)
}

// Drop removes the services of an owner and does not wait.
func (r *Registrar) Drop(owner string) { r.services.Drop(owner) }
