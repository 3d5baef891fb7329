package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Waits between attempts. A server that is just starting is asked again within
// milliseconds; nothing falls back by seconds while it may be the server's turn.
const (
	registerBackoffMin = 10 * time.Millisecond
	registerBackoffMax = time.Second
	deniedBackoffMax   = 15 * time.Second
	heldBackoffMax     = 2 * time.Second // while another agent is the node
	beatBackoffMin     = 100 * time.Millisecond
	beatBackoffMax     = 5 * time.Second
	defaultTTL         = 10 * time.Second // when a server names none
	beatGrace          = 10 * time.Second // before a missed heartbeat counts
)

// errNodeUnknown says that the servers have lost the node: it must register again.
var errNodeUnknown = errors.New("the servers do not know the node")

// keepRegistered registers the node and keeps it alive until ctx ends. During
// each registration it runs attached, which begins anew after a loss.
func (c *Client) keepRegistered(ctx context.Context, attached func(context.Context) error) error {
	for {
		ttl, err := c.enter(ctx)
		if err != nil {
			return err
		}
		err = c.beside(ctx, attached, func(ctx context.Context) error { return c.heartbeat(ctx, ttl) })
		if !errors.Is(err, errNodeUnknown) {
			return err
		}
		c.log.Warn("registering the node again", "err", err)
	}
}

// beside runs attached while fn runs, and returns what fn returned.
func (c *Client) beside(ctx context.Context, attached, fn func(context.Context) error) error {
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

// enter registers until it worked and says that the node is ready. It returns
// only when ctx ended otherwise.
func (c *Client) enter(ctx context.Context) (ttl time.Duration, err error) {
	back := backoff{min: registerBackoffMin, max: registerBackoffMax}
	waits := false // for the first server
	for {
		if err = c.register(ctx); err == nil {
			ttl, err = c.beat(ctx)
		}
		if err == nil {
			c.log.Info("node is ready", "node", c.id.id)
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
		waits = errors.Is(err, errNoServers) // logged once, not with every attempt
		back.max = c.denied(err)
		if err := back.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// denied takes note of a failed registration, and says how long to wait at most.
func (c *Client) denied(err error) (wait time.Duration) {
	why := err.Error()
	switch {
	case errors.Is(err, nomad.ErrNodeHeld):
		c.refusal.Store(&why)
		return heldBackoffMax
	case errors.Is(err, nomad.ErrPermissionDenied):
		c.refusal.Store(&why)
		if err := c.id.refused(); err != nil {
			c.log.Error("forget the registration", "err", err)
		}
		return deniedBackoffMax
	}
	return registerBackoffMax
}

// register tells the servers the whole node.
func (c *Client) register(ctx context.Context) error {
	req := nomad.NodeRegisterRequest{
		Node:           c.node.copy(),
		CreateNodePool: true,
		WriteRequest:   nomad.WriteRequest{Region: c.cfg.Region, AuthToken: c.id.registerAuth()},
	}
	var resp nomad.NodeUpdateResponse
	if err := c.servers.Call(ctx, "Node.Register", &req, &resp); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	c.id.accept(resp.SignedIdentity)
	c.learn(&resp)
	return c.id.known()
}

// beat tells the servers that the node is ready.
func (c *Client) beat(ctx context.Context) (ttl time.Duration, err error) {
	req := nomad.NodeUpdateStatusRequest{
		NodeID:               c.id.id,
		Status:               nomad.NodeStatusReady,
		ForceIdentityRenewal: c.id.wantsRenewal(),
		IdentitySigningKeyID: c.id.jwt().KeyID(),
		UpdatedAt:            time.Now().Unix(),
		SessionID:            c.session.ID,
		WriteRequest:         c.write(),
	}
	var resp nomad.NodeUpdateResponse
	if err := c.servers.Call(ctx, "Node.UpdateStatus", &req, &resp); err != nil {
		c.id.accept(nil)
		if isNodeUnknown(err) {
			return 0, fmt.Errorf("%w: %w", errNodeUnknown, err)
		}
		return 0, fmt.Errorf("heartbeat: %w", err)
	}
	c.id.accept(resp.SignedIdentity)
	c.learn(&resp)
	if c.Healthy() != nil && c.lastBeat.Load() != 0 {
		c.allocs.tellHeld()
	}
	c.lastBeat.Store(time.Now().UnixNano())
	c.missed.Store(false)
	if ttl = resp.HeartbeatTTL; ttl <= 0 {
		ttl = defaultTTL
	}
	c.ttl.Store(int64(ttl))
	return ttl, nil
}

// heartbeat beats once per TTL, sooner after a failure or when pulling was refused. When the node changed it
// registers again. It returns when the servers have lost the node or ctx ended.
func (c *Client) heartbeat(ctx context.Context, ttl time.Duration) error {
	back := backoff{min: beatBackoffMin, max: beatBackoffMax}
	timer := time.NewTimer(ttl)
	defer timer.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.node.changed:
			err = c.register(ctx)
		case <-c.hurry:
			ttl, err = c.beat(ctx)
		case <-timer.C:
			ttl, err = c.beat(ctx)
		}
		if err == nil {
			timer.Reset(ttl)
		}
		switch {
		case err == nil:
			back.reset()
			continue
		case errors.Is(err, errNodeUnknown):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		c.missed.Store(true)
		c.log.Warn("node heartbeat", "err", err)
		if err := back.wait(ctx); err != nil {
			return err
		}
		timer.Reset(0)
	}
}

// learn takes what the servers tell beside their answer.
func (c *Client) learn(resp *nomad.NodeUpdateResponse) {
	if e := resp.SchedulingEligibility; e != "" {
		c.eligibility.Store(&e)
	}
	if c.remote != nil {
		c.remote.learn(resp.Servers, int(resp.NumNodes))
	}
}

// isNodeUnknown says whether a heartbeat was refused because the node must
// register (compat/wire.md section 8), as when another agent has registered. One that is denied must too: servers whose
// state was restored may lack the key that signed the node's token, and its
// registration proves by the secret who it is.
func isNodeUnknown(err error) bool {
	return errors.Is(err, nomad.ErrNodeNotFound) || errors.Is(err, nomad.ErrPermissionDenied) ||
		errors.Is(err, nomad.ErrNodeSecret) || errors.Is(err, nomad.ErrNodeSession) || errors.Is(err, nomad.ErrNodeHeld)
}

// write begins a write request.
func (c *Client) write() nomad.WriteRequest {
	return nomad.WriteRequest{Region: c.cfg.Region, AuthToken: c.id.auth()}
}

// query begins a read request that any server may answer.
func (c *Client) query() nomad.QueryOptions {
	return nomad.QueryOptions{Region: c.cfg.Region, AuthToken: c.id.auth(), AllowStale: true}
}
