package client

import (
	"context"
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
	"github.com/open-nomad/open-nomad/nomad"
)

// awaitClouds waits until the first attempt with every cloud provider is over, for cloud.ProbeLimit at most. Facts
// that arrive later register the node again.
func (c *Client) awaitClouds(ctx context.Context) {
	timer := time.NewTimer(cloud.ProbeLimit)
	defer timer.Stop()
	select {
	case <-c.clouds.Tried():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// addCloud adds the facts of a cloud provider to the node.
func (c *Client) addCloud(facts cloud.Facts) {
	c.node.update(func(n *nomad.Node) {
		maps.Copy(n.Attributes, facts.Attributes)
		n.Links = maps.Clone(n.Links)
		maps.Copy(n.Links, facts.Links)
	})
	raise(c.node.changed)
}
