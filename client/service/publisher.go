package service

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// Checks are the checks of the node (check.Set).
type Checks interface {
	// Describe sets the health of the registrations of a workload.
	Describe(w *Workload, regs []*catalog.Registration)
	// Follow calls changed after each change of the status of a check of an allocation, until end is called.
	Follow(alloc string, changed func()) (end func())
}

// Publisher registers the services of one workload with their health. Its caller decides when. Publish and Unfollow must
// not be called concurrently.
type Publisher struct {
	Registrar *Registrar // nil: native services are not enabled
	Checks    Checks     // nil: no checks
	Owner     string     // of the registrations
	end       func()     // ends Checks.Follow, nil before
}

// Publish registers the services of the workload. changed is called after each change of the status of a check, until
// Unfollow is called.
func (p *Publisher) Publish(w *Workload, changed func()) error {
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

// Remove removes the services and waits until the servers have done so, for one second at most.
func (p *Publisher) Remove(ctx context.Context) {
	if p.Registrar != nil {
		p.Registrar.Remove(ctx, p.Owner)
	}
}

// Drop removes the services without a wait.
func (p *Publisher) Drop() {
	if p.Registrar != nil {
		p.Registrar.Drop(p.Owner)
	}
}
