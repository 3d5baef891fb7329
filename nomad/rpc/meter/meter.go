// Package meter counts the RPCs of a server or of a client, and measures how long they take.
//
// Counters are added up here and passed to the metrics once per interval: the Sum of a counter
// is the number of calls. Durations are passed on one by one. It never sees a request, a token
// or an address.
//
// Run is its only goroutine.
package meter

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// defaultEvery is the interval of a Config that has none.
const defaultEvery = time.Second

// Config of a Meter.
type Config struct {
	// Every is how often counters are passed to the metrics; 0 is 1 s.
	Every time.Duration
	// NoIdentities leaves the label identity out of the rates of calls.
	NoIdentities bool
	// AllocIDs puts the IDs of allocations in the label identity. Without it all
	// allocations are counted together.
	AllocIDs bool
}

// Meter implements rpc.Observer.
type Meter struct {
	cfg     Config
	prefix  string // nomad or client
	name    func(method string) string
	rated   bool     // rates of calls by endpoint and identity are counted
	methods sync.Map // name of a method → *method

	counts struct {
		calls, failed, streams, failedStreams, queries, conns, handoffs atomic.Int64
	}

	mu      sync.Mutex
	rates   map[rate]int64   // since the last interval
	regions map[string]int64 // since the last interval
}

// method is what is known of a row of the table.
type method struct {
	timer     []string
	endpoint  string
	operation string
}

// rate is one of the series of the rates of calls.
type rate struct{ endpoint, operation, identity string }

// ForServer returns the Meter of a server.
func ForServer(cfg Config) *Meter {
	return newMeter(cfg, "nomad", ServerName)
}

// ForClient returns the Meter of a client.
func ForClient(cfg Config) *Meter {
	return newMeter(cfg, "client", clientName)
}

func newMeter(cfg Config, prefix string, name func(string) string) *Meter {
	if cfg.Every <= 0 {
		cfg.Every = defaultEvery
	}
	return &Meter{cfg: cfg, prefix: prefix, name: name, rated: prefix == "nomad", rates: map[rate]int64{}, regions: map[string]int64{}}
}

// Called implements rpc.Observer. Calls that wait for a change count with their waiting.
func (m *Meter) Called(row rpc.Method, c *rpc.Call, took time.Duration, err error) {
	of := m.of(row)
	m.counts.calls.Add(1)
	if err != nil {
		m.counts.failed.Add(1)
	}
	if of.operation != write {
		m.counts.queries.Add(1)
	}
	m.rate(of, c)
	metrics.AddSample(of.timer, milliseconds(took))
}

// Streamed implements rpc.Observer. A stream counts when it has ended.
func (m *Meter) Streamed(row rpc.Method, c *rpc.Call, took time.Duration, err error) {
	of := m.of(row)
	m.counts.streams.Add(1)
	if err != nil {
		m.counts.failedStreams.Add(1)
	}
	m.rate(of, c)
	metrics.AddSample(of.timer, milliseconds(took))
}

// Accepted implements rpc.Observer.
func (m *Meter) Accepted() { m.counts.conns.Add(1) }

// HandedOff implements rpc.Observer.
func (m *Meter) HandedOff() { m.counts.handoffs.Add(1) }

// Forwarded implements rpc.Observer.
func (m *Meter) Forwarded(region string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.regions[region]++
}

// Run passes the counters to the metrics in each interval until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	tick := time.NewTicker(m.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			m.flush()
			return ctx.Err()
		case <-tick.C:
			m.flush()
		}
	}
}

// of returns what is known of a method.
func (m *Meter) of(row rpc.Method) *method {
	if known, ok := m.methods.Load(row.Name); ok {
		return known.(*method)
	}
	of := &method{
		timer:     append([]string{m.prefix}, strings.Split(m.name(row.Name), ".")...),
		endpoint:  endpoint(row.Name),
		operation: operation(row.Name, row.NewRequest().Envelope().Write),
	}
	known, _ := m.methods.LoadOrStore(row.Name, of)
	return known.(*method)
}

// rate counts a call of its caller.
func (m *Meter) rate(of *method, c *rpc.Call) {
	if !m.rated {
		return
	}
	r := rate{endpoint: of.endpoint, operation: of.operation}
	if !m.cfg.NoIdentities {
		r.identity = m.identity(c.Identity)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rates[r]++
}

// identity names a caller: an accessor ID, a node, an allocation or the name of a certificate.
func (m *Meter) identity(id *acls.AuthenticatedIdentity) string {
	switch claims := id.Claims; {
	case id.ACLToken != nil:
		return "token:" + id.ACLToken.AccessorID
	case id.ClientID != "":
		return "client:" + id.ClientID
	case claims != nil && claims.WorkloadIdentityClaims != nil && m.cfg.AllocIDs:
		return "alloc:" + claims.AllocationID
	case claims != nil && claims.WorkloadIdentityClaims != nil:
		return "alloc"
	case claims != nil && claims.ServerIdentityClaims != nil:
		return "server"
	case id.TLSName != "":
		return "cert:" + id.TLSName
	}
	return "unauthenticated"
}

// flush passes the counters to the metrics.
func (m *Meter) flush() {
	for _, one := range []struct {
		count *atomic.Int64
		key   []string
	}{
		{&m.counts.calls, []string{m.prefix, "rpc", "request"}},
		{&m.counts.failed, []string{m.prefix, "rpc", "request_error"}},
		{&m.counts.streams, []string{m.prefix, "streaming_rpc", "request"}},
		{&m.counts.failedStreams, []string{m.prefix, "streaming_rpc", "request_error"}},
		{&m.counts.conns, []string{m.prefix, "rpc", "accept_conn"}},
	} {
		add(one.key, one.count.Swap(0))
	}
	if !m.rated {
		return
	}
	add([]string{m.prefix, "rpc", "query"}, m.counts.queries.Swap(0))
	add([]string{m.prefix, "rpc", "raft_handoff"}, m.counts.handoffs.Swap(0))
	m.mu.Lock()
	rates, regions := maps.Clone(m.rates), maps.Clone(m.regions)
	clear(m.rates)
	clear(m.regions)
	m.mu.Unlock()
	for r, n := range rates {
		var labels []metrics.Label
		if r.identity != "" {
			labels = []metrics.Label{{Name: "identity", Value: r.identity}}
		}
		metrics.IncrCounterWithLabels([]string{m.prefix, "rpc", r.endpoint, r.operation}, float32(n), labels)
	}
	for region, n := range regions {
		add([]string{m.prefix, "rpc", "cross-region", region}, n)
	}
}

// add adds to a counter. One of nothing is not shown.
func add(key []string, n int64) {
	if n > 0 {
		metrics.IncrCounter(slices.Clip(key), float32(n))
	}
}

func milliseconds(d time.Duration) float32 { return float32(d.Seconds() * 1000) }
