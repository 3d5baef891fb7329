package client

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/service"
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

// resendServices sends all registrations again, since the servers may have lost some.
func (c *Client) resendServices() {
	if c.services != nil {
		c.services.Resync()
	}
}
