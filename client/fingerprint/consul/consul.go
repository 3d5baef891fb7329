// Package consul detects the agents of Consul that are configured for a client. The results are attributes and a link of
// the node, named as in Nomad 2.0.
//
//	ask ──answer──▶ facts, once
//	 ▲ └──error──▶ wait 15 s ──┐
//	 └─────────────────────────┘
//
// A client does not wait for the facts: it registers the node again when they arrive. A Consul that fails later changes
// nothing. A value that does not fit is left out.
//
// Run owns one goroutine per cluster and ends them before it returns. The package stores nothing.
package consul

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/internal/consul"
)

const (
	// period is the time between two attempts.
	period = 15 * time.Second
	// Fingerprinter is the name in the lists of fingerprinters.
	Fingerprinter = "consul"
)

// Facts are the attributes and links of a node with an agent of Consul.
type Facts struct {
	Attributes, Links map[string]string
}

// Detector asks the agents of clusters for their facts.
type Detector struct {
	agents []*consul.Agent
	found  func(Facts)
	log    *slog.Logger
}

// New returns a Detector. It calls found once per cluster, from any goroutine.
func New(agents []*consul.Agent, found func(Facts), log *slog.Logger) *Detector {
	return &Detector{agents: agents, found: found, log: log}
}

// Run detects all clusters, until ctx ends.
func (d *Detector) Run(ctx context.Context) error {
	if len(d.agents) > 1 {
		d.log.Warn("multiple Consul configurations are only supported in Nomad Enterprise")
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range d.agents {
		group.Go(func() error { return d.detect(ctx, c) })
	}
	return group.Wait()
}

// detect asks the agent of a cluster until it answers.
func (d *Detector) detect(ctx context.Context, c *consul.Agent) error {
	for attempt := 0; ; attempt++ {
		facts, left, err := facts(ctx, c)
		if err == nil {
			for _, err := range left {
				d.log.Warn("an attribute of Consul is left out", "cluster", c.Name(), "err", err)
			}
			d.found(facts)
			return nil
		}
		if attempt == 0 && ctx.Err() == nil {
			d.log.Warn("detect Consul, again every 15 s", "cluster", c.Name(), "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(period):
		}
	}
}

// facts asks the agent once. Values that do not fit are left out, each with an error.
func facts(ctx context.Context, c *consul.Agent) (found Facts, left []error, err error) {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	self := answer{}
	if _, err := c.Client().Raw().Query("/v1/agent/self", &self, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return Facts{}, nil, consul.Redact(err)
	}
	if version, err := self.text("Config", "Version"); err != nil || version == "" {
		return Facts{}, nil, errors.New("the answer is not that of an agent of Consul")
	}
	found, left = read(c, self)
	return found, left, nil
}
