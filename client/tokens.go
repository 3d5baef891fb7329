package client

import (
	"context"

	"github.com/open-nomad/open-nomad/client/consul/token"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
)

// openTokens creates the tokens of workloads in Consul and in Vault, if the node has them.
func (c *Client) openTokens() {
	if a := c.cfg.Consul.defaultAgent(); a != nil {
		c.tokens = token.NewNode(token.NodeConfig{Agent: a, ServiceMethod: c.cfg.Consul.ServiceAuthMethod,
			TaskMethod: c.cfg.Consul.TaskAuthMethod, Store: c.db, Log: c.log})
	}
	if v := c.cfg.Vault.defaultCluster(); v != nil {
		c.inVault = vaulttoken.NewNode(vaulttoken.NodeConfig{Cluster: v, Store: c.db, Log: c.log})
	}
}

// runTokens logs workloads out of Consul, and revokes their tokens in Vault. The returned function ends this. It is called after
// the last task of an ephemeral node has stopped.
func (c *Client) runTokens(ctx context.Context) (end func()) {
	var ends []func()
	if c.tokens != nil {
		ends = append(ends, runBeyond(ctx, c.tokens.Run))
	}
	if c.inVault != nil {
		ends = append(ends, runBeyond(ctx, c.inVault.Run))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// runBeyond runs a function that ends with its context, also after the end of ctx. The returned function ends it.
func runBeyond(ctx context.Context, run func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx) // ends with ctx
	}()
	return func() { cancel(); <-done }
}
