package client

import (
	"context"

	"github.com/hashicorp/go-metrics"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/client/telemetry"
	"github.com/open-nomad/open-nomad/nomad"
)

// measure publishes metrics until ctx ends.
func (c *Client) measure(ctx context.Context) error {
	cfg := telemetry.Config{Every: c.cfg.Metrics.Every, Node: c.measuredNode, Allocs: c.measuredAllocs, Log: c.log}
	if c.cfg.Metrics.Node {
		cfg.Host = c.stats.Measure
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return telemetry.New(cfg).Run(ctx) })
	group.Go(func() error { return c.meter.Run(ctx) })
	group.Go(func() error { return c.id.Measure(ctx, c.labels) })
	return group.Wait()
}

// labels returns the labels of the identity's metrics, without the status and eligibility.
func (c *Client) labels() []metrics.Label { return telemetry.Labels(c.measuredNode())[:4:4] }

// measuredNode returns the node with the status and eligibility that the servers last reported.
func (c *Client) measuredNode() *nomad.Node {
	n := c.node.copy()
	if c.lastBeat.Load() > 0 {
		n.Status = nomad.NodeStatusReady
	}
	if e := c.eligibility.Load(); e != nil {
		n.SchedulingEligibility = *e
	}
	return n
}

func (c *Client) measuredAllocs() []telemetry.Alloc {
	var out []telemetry.Alloc
	for _, e := range c.allocs.All() {
		s := e.Runner.State()
		out = append(out, telemetry.Alloc{Resources: e.Runner.Alloc().AllocatedResources, Status: s.ClientStatus, Tasks: s.TaskStates})
	}
	return out
}
