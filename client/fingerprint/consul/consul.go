// Package consul detects the agents of Consul that are configured for a client. The results are attributes and a link of
// the node, named as in Nomad 2.0.
//
//	ask ──answer──▶ facts ──▶ wait 1 min ──┐
//	 ▲ └──error──▶ wait 15 s ──────────────┤
//	 └─────────────────────────────────────┘
//
// A client does not wait for the facts: it registers the node again when they arrive or change, such as after an upgrade
// of Consul. An outage of Consul changes nothing. A value that does not fit is left out.
//
// Run owns one goroutine per cluster and ends them before it returns. The package stores nothing.
package consul

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/wake"
)

const (
	// period is the time until the next attempt after a failed one, and refresh after a successful one.
	period  = 15 * time.Second
	refresh = time.Minute
	// Fingerprinter is the name in the lists of fingerprinters.
	Fingerprinter = "consul"
)

// Facts are the attributes and links of a node with an agent of Consul.
type Facts struct {
	Attributes, Links map[string]string
}

// Change replaces the facts of one cluster. Before is empty at the first time.
type Change struct{ Before, After Facts }

// Detector asks the agents of clusters for their facts.
type Detector struct {
	agents []*consul.Agent
	found  func(Change)
	log    *slog.Logger

	again wake.Broadcast
}

// New returns a Detector. It calls found for each change of the facts, from any goroutine.
func New(agents []*consul.Agent, found func(Change), log *slog.Logger) *Detector {
	return &Detector{agents: agents, found: found, log: log}
}

// Again asks all agents now. It does not wait.
func (d *Detector) Again() { d.again.Send() }

// Run detects all clusters, until ctx ends.
func (d *Detector) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range d.agents {
		group.Go(func() error { return d.detect(ctx, c) })
	}
	return group.Wait()
}

// detect asks the agent of a cluster until ctx ends. It logs the first failure in a row.
func (d *Detector) detect(ctx context.Context, c *consul.Agent) error {
	var last Facts
	failed := false
	for {
		again, wait := d.again.Next(), refresh
		now, left, err := facts(ctx, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if wait = period; !failed {
				d.log.Warn("detect Consul, again every 15 s", "cluster", c.Name(), "err", err)
			}
		case !reflect.DeepEqual(now, last):
			for _, err := range left {
				d.log.Warn("an attribute of Consul is left out", "cluster", c.Name(), "err", err)
			}
			d.found(Change{last, now})
			last = now
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
		case <-time.After(wait):
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
