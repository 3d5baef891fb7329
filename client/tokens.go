package client

import (
	"context"

	"github.com/open-nomad/open-nomad/client/consul/token"
)

// openTokens creates the tokens of workloads in Consul, if the node has Consul.
func (c *Client) openTokens() {
	if a := c.cfg.Consul.defaultAgent(); a != nil {
		c.tokens = token.NewNode(token.NodeConfig{Agent: a, ServiceMethod: c.cfg.Consul.ServiceAuthMethod,
			TaskMethod: c.cfg.Consul.TaskAuthMethod, Store: c.db, Log: c.log})
	}
}

// runTokens logs workloads out of Consul. The returned function ends this. It is called after the last task of an ephemeral
// node has stopped.
func (c *Client) runTokens(ctx context.Context) (end func()) {
	if c.tokens == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.tokens.Run(ctx) // ends with ctx
	}()
	return func() { cancel(); <-done }
}
