package client

import (
	"context"
	"errors"
	"strings"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// openServices creates the registrar of native services, unless they are disabled, and the checks with the results of
// the previous agent.
func (c *Client) openServices() {
	if !c.cfg.NoServices {
		c.services = service.New(c.calls, c.log)
	}
	stored, err := c.db.CheckResults()
	if err != nil {
		c.log.Warn("checks begin without the results of the previous agent", "err", err)
		stored = nil
	}
	cfg := check.Config{Store: c.db, Version: c.cfg.Fingerprint.Version, Log: c.log}
	if r := c.cfg.Consul.Services; r != nil { // else the interface would have a nil pointer
		cfg.Consul = r
	}
	c.checks = check.New(cfg, stored)
}

// consulStates returns the states of the node's services in Consul, nil if the node has none.
func (c *Client) consulStates() consul.States {
	if r := c.cfg.Consul.Services; r != nil {
		return r
	}
	return nil
}

// LeavesServices reports whether services of an allocation in Consul that are not wanted are leftovers of this node.
func (c *Client) LeavesServices(alloc string) bool {
	states := c.cfg.Consul.Services
	return states != nil && c.leavesServices(alloc, func(r *allocrunner.Runner) bool {
		return consul.Complete(states, r.Alloc(), r.States())
	})
}

// leavesServices reports whether services of an allocation that are not wanted are leftovers of this node: the allocation is
// on the node, or was when the agent started, and all of its services that are to be registered are wanted already.
// complete reports that of an allocation which has not ended.
func (c *Client) leavesServices(alloc string, complete func(*allocrunner.Runner) bool) bool {
	select {
	case <-c.restored:
	default:
		return false
	}
	e, err := c.allocs.Find(alloc)
	if err != nil {
		return c.allocs.Had(alloc)
	}
	select {
	case <-e.Runner.Done():
		return true
	default:
		return complete(e.Runner)
	}
}

// ConsulServices adds events to the tasks of an owner's services that Consul does not register, or registers again.
func (c *Client) ConsulServices(owner string, list []reconcile.State) {
	id, workload, _ := strings.Cut(owner, "/")
	e, err := c.allocs.Find(id)
	if err != nil {
		return // it is not a service of an allocation, or that has ended
	}
	ofGroup := workload == catalog.GroupWorkload(e.Runner.Alloc().TaskGroup)
	for _, event := range consul.Events(list) {
		if ofGroup {
			e.Runner.EmitAll(event)
		} else {
			e.Runner.Emit(workload, event)
		}
	}
}

// inConsul returns the services of this agent in Consul, nil if the node has none.
func (c *Client) inConsul() consul.Reconciler {
	if r := c.cfg.Consul.Services; r != nil {
		return r
	}
	return nil
}

// runServices sends service registrations once the node is registered. The returned function ends this. It is called
// after the last task of an ephemeral node has stopped, since stopping removes the services.
func (c *Client) runServices(ctx context.Context) (end func()) {
	if c.services == nil {
		return func() {}
	}
	registered := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-c.ready:
		case <-registered.Done():
			return // the servers have no registrations of this node
		}
		if err := c.services.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			c.log.Error("send service registrations", "err", err)
		}
	}()
	return func() { cancel(); <-done }
}

// removeLeftovers removes the native services that the previous agent could not remove.
func (c *Client) removeLeftovers(ctx context.Context) error {
	if c.services == nil || !c.allocs.Inherited() {
		return nil
	}
	select {
	case <-c.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.services.Leftovers(ctx, c.id.ID, func(alloc string) bool {
		return c.leavesServices(alloc, func(r *allocrunner.Runner) bool {
			return service.Complete(nomad.ServiceProviderNomad, c.services.Has, r.Alloc(), r.States())
		})
	})
}

// resendServices sends all registrations again, since the servers may have lost some.
func (c *Client) resendServices() {
	if c.services != nil {
		c.services.Resync()
	}
}
