// Package meter counts the RPCs of a server or of a client and measures how long they take.
//
// It sums counters and passes them to the metrics once per interval. The Sum of such a counter
// is the number of calls. Durations are passed individually. The package never sees tokens,
// addresses or the contents of requests.
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

	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// defaultEvery is the default interval.
const defaultEvery = time.Second

// Config configures a Meter.
type Config struct {
	// Every is the interval at which counters are passed to the metrics; 0 means 1 s.
	Every time.Duration
	// NoIdentities omits the label identity from the call rates.
	NoIdentities bool
	// AllocIDs puts allocation IDs in the label identity. Without it all allocations share one
	// value.
	AllocIDs bool
}

// Meter implements rpc.Observer.
type Meter struct {
	cfg     Config
	prefix  string // nomad or client
	name    func(method string) string
	rated   bool     // whether call rates per endpoint and identity are counted
	methods sync.Map // name of a method → *method

	counts struct {
		calls, failed, streams, failedStreams, queries, conns, handoffs atomic.Int64
	}

	mu      sync.Mutex
	rates   map[rate]int64   // since the last interval
	regions map[string]int64 // since the last interval
}

// method caches the properties of a method.
type method struct {
	timer     []string
	endpoint  string
	operation string
}

// rate identifies one series of the call rates.
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

// Called implements rpc.Observer. The duration of a blocking query includes its wait time.
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

// Streamed implements rpc.Observer. A stream is counted when it ends.
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

// Run passes the counters to the metrics at every interval until ctx ends.
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

// of returns the cached properties of a method.
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

// rate counts a call for its caller.
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

// identity returns the label of a caller: an accessor ID, a node, an allocation or the name of
// a certificate.
func (m *Meter) identity(id *rbac.AuthenticatedIdentity) string {
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

// add adds n to a counter. It skips zero.
func add(key []string, n int64) {
	if n > 0 {
		metrics.IncrCounter(slices.Clip(key), float32(n))
	}
}

func milliseconds(d time.Duration) float32 { return float32(d.Seconds() * 1000) }
