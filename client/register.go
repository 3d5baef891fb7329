package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/client/servers"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Delays between attempts. They start at milliseconds, since a server may just be starting.
const (
	registerBackoffMin = 10 * time.Millisecond
	registerBackoffMax = time.Second
	deniedBackoffMax   = 15 * time.Second
	heldBackoffMax     = 2 * time.Second // while another agent holds the node
	beatBackoffMin     = 100 * time.Millisecond
	beatBackoffMax     = 5 * time.Second
	defaultTTL         = 10 * time.Second // if a server returns none
	beatGrace          = 10 * time.Second // before a missed heartbeat counts
)

// errNodeUnknown means that the servers do not have the node: it must register again.
var errNodeUnknown = errors.New("the node is not registered with the servers")

// keepRegistered registers the node and sends heartbeats until ctx ends. During each
// registration it runs attached, which is restarted after a loss.
func (c *Client) keepRegistered(ctx context.Context, attached func(context.Context) error) error {
	for {
		ttl, err := c.enter(ctx)
		if err != nil {
			return err
		}
		err = c.runWith(ctx, attached, func(ctx context.Context) error { return c.heartbeat(ctx, ttl) })
		if !errors.Is(err, errNodeUnknown) {
			return err
		}
		c.log.Warn("registering the node again", "err", err)
	}
}

// runWith runs attached while fn runs, and returns the error of fn.
func (c *Client) runWith(ctx context.Context, attached, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- attached(ctx) }()
	err := fn(ctx)
	cancel()
	if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) {
		c.log.Error("watch allocations", "err", failed)
	}
	return err
}

// enter registers the node and sends the first heartbeat, with retries. It fails only when ctx
// ends.
func (c *Client) enter(ctx context.Context) (ttl time.Duration, err error) {
	back := backoff.Backoff{Min: registerBackoffMin, Max: registerBackoffMax}
	waits := false
	for {
		c.node.changed.Clear() // this registration has the change
		if err = c.register(ctx); err == nil {
			ttl, err = c.beat(ctx)
		}
		if err == nil {
			c.log.Info("node is ready", "node", c.id.ID)
			c.refusal.Store(nil)
			c.readyOnce.Do(func() { close(c.ready) })
			return ttl, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if !waits {
			c.log.Warn("register node", "err", err)
		}
		waits = errors.Is(err, servers.ErrNone) // log it once, not with every attempt
		c.discover(ctx, err)
		back.Max = c.denied(err)
		if err := back.WaitJitter(ctx); err != nil {
			return 0, err
		}
	}
}

// denied records a failed registration and returns the maximum delay before the next attempt.
func (c *Client) denied(err error) (wait time.Duration) {
	why := err.Error()
	switch {
	case errors.Is(err, apierror.ErrNodeHeld):
		c.refusal.Store(&why)
		return heldBackoffMax
	case errors.Is(err, apierror.ErrPermissionDenied):
		c.refusal.Store(&why)
		if err := c.id.MarkRefused(); err != nil {
			c.log.Error("store the refused registration", "err", err)
		}
		return deniedBackoffMax
	}
	return registerBackoffMax
}

// register sends the node to the servers.
func (c *Client) register(ctx context.Context) error {
	req := message.NodeRegisterRequest{
		Node:           c.node.copy(),
		CreateNodePool: true,
		WriteRequest:   message.WriteRequest{Region: c.cfg.Region, AuthToken: c.id.RegisterAuth()},
	}
	if err := c.id.Prove(ctx, c.servers, &req); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	var resp message.NodeUpdateResponse
	if err := c.servers.Call(ctx, "Node.Register", &req, &resp); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	c.id.Accept(resp.SignedIdentity)
	c.learn(&resp)
	c.sendSchemas(ctx, resp.WantedSchemas)
	return c.id.MarkRegistered()
}

// beat sends one heartbeat with status ready.
func (c *Client) beat(ctx context.Context) (ttl time.Duration, err error) {
	req := message.NodeUpdateStatusRequest{
		NodeID:               c.id.ID,
		Status:               nomad.NodeStatusReady,
		ForceIdentityRenewal: c.id.WantsRenewal(),
		IdentitySigningKeyID: c.id.JWT().KeyID(),
		UpdatedAt:            time.Now().Unix(),
		SessionID:            c.session.ID,
	}
	var resp message.NodeUpdateResponse
	if err := c.calls.Call(ctx, "Node.UpdateStatus", &req, &resp); err != nil {
		c.id.Accept(nil)
		if isNodeUnknown(err) {
			return 0, fmt.Errorf("%w: %w", errNodeUnknown, err)
		}
		return 0, fmt.Errorf("heartbeat: %w", err)
	}
	c.id.Accept(resp.SignedIdentity)
	c.learn(&resp)
	if c.Healthy() != nil && c.lastBeat.Load() != 0 {
		c.allocs.ResendAll()
		c.resendServices()
	}
	c.lastBeat.Store(time.Now().UnixNano())
	c.missed.Store(false)
	if ttl = resp.HeartbeatTTL; ttl <= 0 {
		ttl = defaultTTL
	}
	c.ttl.Store(int64(ttl))
	c.sendSchemas(ctx, resp.WantedSchemas)
	return ttl, nil
}

// heartbeat sends one heartbeat per TTL, and sooner after a failure or when urgent is raised.
// When the node changes, it registers again. It returns when the servers do not have the node
// or ctx ends.
func (c *Client) heartbeat(ctx context.Context, ttl time.Duration) error {
	back := backoff.Backoff{Min: beatBackoffMin, Max: beatBackoffMax}
	timer := time.NewTimer(ttl)
	defer timer.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.node.changed:
			if err = c.register(ctx); err != nil {
				c.node.changed.Send()
			}
		case <-c.urgent:
			ttl, err = c.beat(ctx)
		case <-timer.C:
			ttl, err = c.beat(ctx)
		}
		if err == nil {
			timer.Reset(ttl)
		}
		switch {
		case err == nil:
			back.Reset()
			continue
		case errors.Is(err, errNodeUnknown):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		c.missed.Store(true)
		c.log.Warn("node heartbeat", "err", err)
		c.discover(ctx, err)
		if err := back.WaitJitter(ctx); err != nil {
			return err
		}
		timer.Reset(0)
	}
}

// learn records the eligibility and the server list of a response.
func (c *Client) learn(resp *message.NodeUpdateResponse) {
	if e := resp.SchedulingEligibility; e != "" {
		c.eligibility.Store(&e)
	}
	if c.remote != nil {
		c.remote.Learn(resp.Servers, int(resp.NumNodes))
	}
}

// isNodeUnknown reports whether the node must register again after err, as in Nomad 2.0. That
// includes a registration by another agent and a denied permission. Servers whose state was
// restored may lack the key that signed the node's token; a registration proves the identity by
// the secret.
func isNodeUnknown(err error) bool {
	return errors.Is(err, apierror.ErrNodeNotFound) || errors.Is(err, apierror.ErrPermissionDenied) ||
		errors.Is(err, apierror.ErrNodeSecret) || errors.Is(err, apierror.ErrNodeSession) || errors.Is(err, apierror.ErrNodeHeld)
}
