package client

import (
	"context"
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/client/secret"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/nomad"
)

// secretsPatience limits how long the start waits for the plugins of secret blocks. They go on after it.
const secretsPatience = 5 * time.Second

// openSecrets creates what fetches the values of secret blocks. Plugins have uids that no task gets: they run before the
// allocations of an earlier agent have their users again.
func (c *Client) openSecrets() error {
	cfg := secret.PluginsConfig{CommonDir: c.cfg.CommonPluginDir, StateDir: c.cfg.StateDir,
		Confiner: &process.Confiner{Sidecars: &c.groups, AgentDirs: c.cfg.OwnDirs}, Log: c.log}
	if users, err := c.users.Split(secret.MaxCalls); err == nil {
		cfg.Users = users
	} // else a call of a plugin fails with the reason
	c.secrets = &secret.Node{RPC: link{c}, Region: c.cfg.Region, Vault: c.cfg.Vault.defaultCluster(), Plugins: secret.NewPlugins(cfg),
		NomadRetry: c.cfg.Template.NomadRetry, VaultRetry: c.cfg.Template.VaultRetry}
	if c.cfg.Fingerprint.Allows(secret.Fingerprinter) {
		c.secretProviders = secret.BuiltIn()
		c.node.update(func(n *nomad.Node) { maps.Copy(n.Attributes, c.secretProviders) })
	}
	return nil
}

// fingerprintSecrets replaces the attributes of the providers of secret blocks.
func (c *Client) fingerprintSecrets(ctx context.Context) {
	if !c.cfg.Fingerprint.Allows(secret.Fingerprinter) {
		return
	}
	c.secretsMu.Lock()
	defer c.secretsMu.Unlock()
	found := c.secrets.Plugins.Fingerprint(ctx)
	before := c.secretProviders
	if ctx.Err() != nil || maps.Equal(before, found) {
		return
	}
	c.secretProviders = found
	c.node.update(func(n *nomad.Node) {
		for name := range before {
			delete(n.Attributes, name)
		}
		maps.Copy(n.Attributes, found)
	})
	c.node.changed.Send()
}

// reloadSecrets fingerprints the providers of secret blocks again on each request until ctx ends. A plugin that hangs does not
// delay other fingerprints.
func (c *Client) reloadSecrets(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.secretReloads:
			c.fingerprintSecrets(ctx)
		}
	}
}

// awaitSecrets runs the plugins of secret blocks for their versions. It waits for secretsPatience at most. The node is
// registered again when a slow plugin has answered.
func (c *Client) awaitSecrets(ctx context.Context) {
	done := make(chan struct{})
	c.background.Go(func() {
		defer close(done)
		c.fingerprintSecrets(ctx)
	})
	timer := time.NewTimer(secretsPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		c.log.Warn("registering before every plugin of secret blocks has been fingerprinted")
	case <-ctx.Done():
	}
}
