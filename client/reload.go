package client

import (
	"context"
	"maps"
	"reflect"

	"github.com/open-nomad/open-nomad/nomad"
)

// Reload fingerprints again what can change while the agent runs: networks, memory, CNI networks and plugins, and host
// volume plugins. It does not wait for them.
func (c *Client) Reload() { raise(c.reloads) }

// reload fingerprints again on each request until ctx ends.
func (c *Client) reload(ctx context.Context) error {
	select {
	case <-c.volumesRestored:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.reloads:
			c.fingerprintAgain(ctx)
			c.fingerprintVolumePlugins(ctx)
		}
	}
}

// fingerprintAgain replaces the facts about the machine and registers the node if they changed.
func (c *Client) fingerprintAgain(ctx context.Context) {
	before := c.facts
	c.facts = c.host.Again(ctx, c.log)
	if reflect.DeepEqual(before, c.facts) {
		return
	}
	c.node.update(func(n *nomad.Node) {
		maps.DeleteFunc(n.Attributes, func(name, _ string) bool {
			_, had := before.Attributes[name]
			_, has := c.facts.Attributes[name]
			return had && !has
		})
		c.facts.Apply(c.cfg.Fingerprint, n)
	})
	raise(c.node.changed)
}
