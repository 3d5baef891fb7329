package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// forward makes the call at another server. For a stream it only opens the stream.
func (c *call) forward(ctx context.Context, addr string) (err error) {
	server := "server at " + addr
	if c.stream != nil {
		c.next, err = c.s.cfg.Peers.Stream(ctx, addr, c.m.Name)
		return absent(err, server)
	}
	if err := c.decode(ctx); err != nil {
		return err
	}
	req, err := c.forwarded(ctx)
	if err != nil {
		return err
	}
	c.out = c.m.response()
	err = c.s.cfg.Peers.Call(ctx, addr, c.m.Name, req, c.out)
	c.bindNode(err)
	return absent(err, server)
}

// bindNode binds the connection of the call to a node if another server has answered so. It
// removes the binding if the connection belongs to another node.
func (c *call) bindNode(err error) {
	conn := c.caller.Conn
	switch {
	case conn == nil || c.caller.Forwarded:
	case errors.Is(err, apierror.ErrNodeHeld), errors.Is(err, apierror.ErrNodeSession):
		conn.UnbindNode()
	case err == nil && c.s.cfg.Bound != nil:
		if node := c.s.cfg.Bound(c.m.Name, c.body.req); node != "" {
			conn.BindNode(node)
		}
	}
}

// bridge connects the caller's stream to the server that answers it.
func (c *call) bridge(ctx context.Context) error {
	defer c.next.Close()
	req, err := c.forwarded(ctx)
	if err != nil {
		return err
	}
	if err := c.next.Encode(req); err != nil {
		return err
	}
	return Bridge(c.stream, c.next)
}

// absent adds to the error about an unknown method which agent does not have the method.
func absent(err error, agent string) error {
	if !errors.Is(err, apierror.ErrNoMethod) && !errors.Is(err, apierror.ErrUnknownMethod) {
		return err
	}
	return fmt.Errorf("%w: the %s runs Nomad or an earlier version of open-nomad, which does not have this method", err, agent)
}

// forwarded returns the request to forward: marked as forwarded, with its region, and with this
// server's token if an in-process caller uses a method for servers only. A call that was
// authenticated by a certificate is not forwarded, because the next server would see the
// certificate of this server.
func (c *call) forwarded(ctx context.Context) (Request, error) {
	if c.caller.ByCertificate() {
		return nil, apierror.Denied("forward %s: this server is not the leader, and a TLS certificate authenticates a call only at the leader; "+
			"call the leader or send a server's identity token", c.m.Name)
	}
	req := c.m.clone(c.body.req)
	req.MarkForwarded()
	region, token := routing(req)
	*region = c.region
	if c.m.Rule.ofServers() && c.caller.Conn == nil && c.s.cfg.Self != nil {
		self, err := c.s.cfg.Self(ctx)
		if err != nil {
			return nil, err
		}
		*token = self
	}
	return req, nil
}

// routing returns the region and the token of a request, to change them.
func routing(req Request) (region, token *string) {
	switch r := req.(type) {
	case interface{ Write() *message.WriteRequest }:
		return &r.Write().Region, &r.Write().AuthToken
	case interface{ Query() *message.QueryOptions }:
		return &r.Query().Region, &r.Query().AuthToken
	case interface{ Caller() *message.NodeCall }:
		return &r.Caller().Region, &r.Caller().AuthToken
	}
	return new(string), new(string)
}
