package service

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// Checks are the checks of the node (check.Set).
type Checks interface {
	// Describe sets the health of the registrations of a workload.
	Describe(w *Workload, regs []*catalog.Registration)
	// Registered is called before the services of a workload are registered in Consul.
	Registered(w *Workload)
	// Follow calls changed after each change of the status of a check of an allocation, until end is called.
	Follow(alloc string, changed func()) (end func())
}

// Consul registers services of provider consul (consul.Registrar).
type Consul interface {
	// Set replaces the services of a workload, which all have this provider. It does not wait.
	Set(owner string, w *Workload) error
	// Remove removes the services of an owner, as Registrar.Remove does.
	Remove(ctx context.Context, owner string) bool
	// Drop removes the services of an owner and does not wait.
	Drop(owner string)
}

// Publisher registers the services of one workload: native ones with their health, others in Consul. Its caller decides
// when. Publish and Unfollow must not be called concurrently.
type Publisher struct {
	Registrar *Registrar // nil: native services are not enabled
	Consul    Consul     // nil: the node has no Consul
	Checks    Checks     // nil: no checks
	Owner     string     // of the registrations
	end       func()     // ends Checks.Follow, nil before
}

// Enabled reports whether services of any provider can be registered.
func (p *Publisher) Enabled() bool { return p.Registrar != nil || p.Consul != nil }

// Publish registers the services of the workload. changed is called after each change of the status of a check, until
// Unfollow is called. If an update changes the provider, the new one gets the services before the old one removes them.
func (p *Publisher) Publish(w *Workload, changed func()) error {
	native, consul := w.of(nomad.ServiceProviderNomad), w.of(nomad.ServiceProviderConsul)
	if len(consul.Services) == 0 {
		if err := p.publishNative(native, changed); err != nil {
			return err
		}
		return p.publishConsul(consul)
	}
	if err := p.publishConsul(consul); err != nil {
		return err
	}
	return p.publishNative(native, changed)
}

func (p *Publisher) publishConsul(w *Workload) error {
	if p.Consul != nil {
		if p.Checks != nil {
			p.Checks.Registered(w)
		}
		return p.Consul.Set(p.Owner, w)
	}
	for _, s := range w.Services {
		return fmt.Errorf("service %q: service registration provider %q not enabled: add a consul block to the configuration of the client, "+
			"or use provider = %q", w.Env.Expand(s.Name), nomad.ServiceProviderConsul, nomad.ServiceProviderNomad)
	}
	return nil
}

func (p *Publisher) publishNative(w *Workload, changed func()) error {
	regs, err := w.Registrations()
	if err != nil {
		return err
	}
	if p.Registrar == nil {
		if len(regs) > 0 {
			return ErrDisabled
		}
		return nil
	}
	if p.Checks != nil {
		p.Checks.Describe(w, regs)
		if p.end == nil && len(regs) > 0 {
			p.end = p.Checks.Follow(w.Alloc.ID, changed)
		}
	}
	p.Registrar.Set(p.Owner, regs)
	return nil
}

// Unfollow ends the calls of changed.
func (p *Publisher) Unfollow() {
	if p.end != nil {
		p.end()
		p.end = nil
	}
}

// Remove removes the services and waits until this is acknowledged, for one second at most.
func (p *Publisher) Remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removeBudget)
	defer cancel()
	if p.Consul != nil {
		p.Consul.Remove(ctx, p.Owner)
	}
	if p.Registrar != nil {
		p.Registrar.Remove(ctx, p.Owner)
	}
}

// Drop removes the services without a wait.
func (p *Publisher) Drop() {
	if p.Consul != nil {
		p.Consul.Drop(p.Owner)
	}
	if p.Registrar != nil {
		p.Registrar.Drop(p.Owner)
	}
}
