// Package vault detects the clusters of Vault that are configured for a client. The results are attributes of the node,
// named as in Nomad 2.0.
//
//	ask ──unsealed──▶ facts, accessible ─────────▶ wait 1 min ──┐
//	 ▲ ├──sealed────▶ facts, not accessible ─────▶ wait 15 s ───┤
//	 │ └──error─────▶ the third in a row: not accessible ─▶ 15 s┤
//	 └──────────────────────────────────────────────────────────┘
//
// A client does not wait for the facts: it registers the node again when they arrive or change. A cluster that is gone or
// sealed loses the attribute "accessible" only, so that jobs can still be placed, and their tasks log in when it is back.
// A value that does not fit is left out. The requests have no token.
//
// Run owns one goroutine per cluster and ends them before it returns. The package stores nothing.
package vault

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/internal/wake"
)

const (
	// period is the time until the next attempt after a failed one, and refresh after a successful one.
	period  = 15 * time.Second
	refresh = time.Minute
	// limit is the time for one attempt.
	limit = 10 * time.Second
	// lost is the number of failures in a row after which a cluster is not accessible.
	lost = 3
	// maxValue limits the length of an attribute.
	maxValue = 256
	// Fingerprinter is the name in the lists of fingerprinters.
	Fingerprinter = "vault"
)

// Change replaces the attributes of one cluster. Before is empty at the first time.
type Change struct{ Before, After map[string]string }

// status is the answer of a cluster.
type status struct {
	version, id, name string
	sealed            bool
}

// Detector asks clusters for their facts.
type Detector struct {
	clusters []*vault.Cluster
	found    func(Change)
	log      *slog.Logger
	ask      func(context.Context, *vault.Cluster) (status, error)

	again wake.Broadcast
}

// New returns a Detector. It calls found for each change of the attributes, from any goroutine.
func New(clusters []*vault.Cluster, found func(Change), log *slog.Logger) *Detector {
	return &Detector{clusters: clusters, found: found, log: log, ask: ask}
}

// Again asks all clusters now. It does not wait.
func (d *Detector) Again() { d.again.Send() }

// Run detects all clusters, until ctx ends.
func (d *Detector) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range d.clusters {
		group.Go(func() error { return d.detect(ctx, c) })
	}
	return group.Wait()
}

// detect asks a cluster until ctx ends.
func (d *Detector) detect(ctx context.Context, c *vault.Cluster) error {
	s := seen{d: d, cluster: c.Name()}
	for {
		again := d.again.Next()
		got, err := d.ask(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
		case <-time.After(s.next(got, err)):
		}
	}
}

// seen is what is known of a cluster.
type seen struct {
	d        *Detector
	cluster  string
	last     map[string]string
	failures int // in a row
	sealed   bool
}

// next applies an answer or an error, and returns the time until the next attempt.
func (s *seen) next(got status, err error) time.Duration {
	if err != nil {
		if s.failures++; s.failures == 1 {
			s.d.log.Warn("detect Vault, again every 15 s", "cluster", s.cluster, "err", err)
		}
		if s.failures == lost && s.last != nil {
			now := maps.Clone(s.last)
			delete(now, s.attribute("accessible"))
			s.replace(now)
		}
		return period
	}
	s.failures = 0
	if got.sealed && !s.sealed {
		s.d.log.Warn("Vault is sealed", "cluster", s.cluster)
	}
	s.sealed = got.sealed
	now := s.facts(got)
	if s.last == nil || !maps.Equal(now, s.last) {
		s.replace(now)
	}
	if got.sealed {
		return period
	}
	return refresh
}

// replace reports new attributes.
func (s *seen) replace(now map[string]string) {
	s.d.found(Change{Before: s.last, After: now})
	s.last = now
}

// facts returns the attributes of an answer. A sealed cluster does not know its identity, which stays as it was.
func (s *seen) facts(got status) map[string]string {
	out := map[string]string{}
	if !got.sealed {
		out[s.attribute("accessible")] = "true"
	}
	for key, value := range map[string]string{"version": strings.TrimPrefix(got.version, "Vault "), "cluster_id": got.id, "cluster_name": got.name} {
		name := s.attribute(key)
		if value == "" && got.sealed {
			value = s.last[name]
		}
		switch {
		case value == "":
		case untrusted.Line(value, maxValue) != value:
			if s.last == nil {
				s.d.log.Warn("an attribute of Vault is left out: too long, or not printable", "cluster", s.cluster, "attribute", name)
			}
		default:
			out[name] = value
		}
	}
	return out
}

// attribute returns the name of an attribute of the cluster.
func (s *seen) attribute(key string) string {
	if s.cluster == vault.DefaultCluster {
		return "vault." + key
	}
	return "vault." + s.cluster + "." + key
}

// ask asks a cluster once.
func ask(ctx context.Context, c *vault.Cluster) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	got, err := c.Client("", "").Sys().SealStatusWithContext(ctx)
	if err != nil {
		return status{}, vault.Redact(err)
	}
	if got == nil || got.Version == "" {
		return status{}, errors.New("the answer is not that of Vault")
	}
	return status{version: got.Version, id: got.ClusterID, name: got.ClusterName, sealed: got.Sealed}, nil
}
