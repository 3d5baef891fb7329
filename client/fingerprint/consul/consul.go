// Package consul detects the agents of Consul that are configured for a client. The results are attributes and a link of
// the node, named as in Nomad 2.0.
//
//	ask ──answer──▶ facts, once
//	 ▲ └──error──▶ wait 15 s ──┐
//	 └─────────────────────────┘
//
// A client does not wait for the facts: it registers the node again when they arrive. A Consul that fails later changes
// nothing. An answer is at most 4 MiB, a redirect is an error, and a value that does not fit is left out. An error never
// contains the answer, since that could repeat the token of the request.
//
// Run owns one goroutine per cluster and ends them before it returns. The package stores nothing.
package consul

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"
)

const (
	// period is the time between two attempts.
	period = 15 * time.Second
	// maxAnswer limits an answer of Consul.
	maxAnswer = 4 << 20
	// DefaultCluster is the name of the cluster whose attributes have no name in them.
	DefaultCluster = "default"
	// Fingerprinter is the name in the lists of fingerprinters.
	Fingerprinter = "consul"
)

// Cluster is the local agent of a cluster.
type Cluster struct {
	Name    string
	Client  *api.Client // from NewClient
	TLS     bool
	Timeout time.Duration // of a request
}

// Facts are the attributes and links of a node with an agent of Consul.
type Facts struct {
	Attributes, Links map[string]string
}

// NewClient returns a client of Consul that reads limited answers and does not follow redirects, which would send the
// token elsewhere.
func NewClient(cfg *api.Config) (*api.Client, error) {
	c, err := api.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	// NewClient sets the HTTP client for the address, and shares it.
	cfg.HttpClient.Transport = limited{cfg.HttpClient.Transport}
	cfg.HttpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// limited is a transport whose answers end after maxAnswer bytes.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// Detector asks the agents of clusters for their facts.
type Detector struct {
	clusters []Cluster
	found    func(Facts)
	log      *slog.Logger
}

// New returns a Detector. It calls found once per cluster, from any goroutine.
func New(clusters []Cluster, found func(Facts), log *slog.Logger) *Detector {
	return &Detector{clusters: clusters, found: found, log: log}
}

// Run detects all clusters, until ctx ends.
func (d *Detector) Run(ctx context.Context) error {
	if len(d.clusters) > 1 {
		d.log.Warn("multiple Consul configurations are only supported in Nomad Enterprise")
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range d.clusters {
		group.Go(func() error { return d.detect(ctx, c) })
	}
	return group.Wait()
}

// detect asks the agent of a cluster until it answers.
func (d *Detector) detect(ctx context.Context, c Cluster) error {
	for attempt := 0; ; attempt++ {
		facts, left, err := c.facts(ctx)
		if err == nil {
			for _, err := range left {
				d.log.Warn("an attribute of Consul is left out", "cluster", c.Name, "err", err)
			}
			d.found(facts)
			return nil
		}
		if attempt == 0 && ctx.Err() == nil {
			d.log.Warn("detect Consul, again every 15 s", "cluster", c.Name, "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(period):
		}
	}
}

// facts asks the agent once. Values that do not fit are left out, each with an error.
func (c Cluster) facts(ctx context.Context) (facts Facts, left []error, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	self := answer{}
	if _, err := c.Client.Raw().Query("/v1/agent/self", &self, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return Facts{}, nil, withoutAnswer(err)
	}
	if version, err := self.text("Config", "Version"); err != nil || version == "" {
		return Facts{}, nil, errors.New("the answer is not that of an agent of Consul")
	}
	facts, left = c.read(self)
	return facts, left, nil
}

// withoutAnswer returns an error without the body of the answer.
func withoutAnswer(err error) error {
	var status api.StatusError
	switch {
	case errors.As(err, &status):
		return fmt.Errorf("unexpected status %d", status.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return err
}
