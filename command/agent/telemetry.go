package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hashicorp/go-metrics"
	promsink "github.com/hashicorp/go-metrics/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// keptIntervals is the number of intervals that the in-memory sink keeps: the current one and the
// last complete one. /v1/metrics shows no older interval, and each interval takes memory per job
// and allocation.
const keptIntervals = 2

// promExpiry is how long Prometheus is shown a value that is not updated.
const promExpiry = time.Minute

// telemetry holds the metrics sinks of the process. /v1/metrics shows the in-memory sink. The
// Prometheus sink and those of other systems are optional.
type telemetry struct {
	memory *metrics.InmemSink
	prom   http.Handler             // nil if disabled
	expiry *promsink.PrometheusSink // nil if disabled
	core   *metrics.Metrics
	// atRead sets the gauges that are computed when metrics are read. It may be nil. It must be
	// set before the agent runs.
	atRead func(set gaugeFunc)
}

// newTelemetry makes the sinks and the global metrics that libraries use.
func newTelemetry(s *config.Settings, log *slog.Logger) (*telemetry, error) {
	t := s.Telemetry
	if t.InMemoryCollectionInterval <= 0 || t.InMemoryRetentionPeriod < t.InMemoryCollectionInterval {
		return nil, s.Fault("telemetry.in_memory_retention_period", "must not be below in_memory_collection_interval, which must be above 0")
	}
	if t.CollectionInterval <= 0 {
		return nil, s.Fault("telemetry.collection_interval", "must be above 0")
	}
	memory := metrics.NewInmemSink(t.InMemoryCollectionInterval, min(t.InMemoryRetentionPeriod, keptIntervals*t.InMemoryCollectionInterval))
	tel := &telemetry{memory: memory}
	sinks := metrics.FanoutSink{memory}
	if t.PrometheusMetrics {
		if err := tel.openPrometheus(); err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		sinks = append(sinks, validSink{tel.expiry})
	}
	pushed, err := pushSinks(s, log)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	sinks = append(sinks, pushed...)
	cfg := metrics.DefaultConfig("nomad")
	cfg.EnableHostname, cfg.EnableHostnameLabel = false, !t.DisableHostname
	if t.UseNodeName {
		cfg.HostName = s.Name
	}
	cfg.FilterDefault = t.FilterDefault
	cfg.EnableRuntimeMetrics = false // done by runTelemetry, because the library's goroutine never ends
	for _, rule := range t.PrefixFilter {
		switch {
		case len(rule) > 1 && rule[0] == '+':
			cfg.AllowedPrefixes = append(cfg.AllowedPrefixes, rule[1:])
		case len(rule) > 1 && rule[0] == '-':
			cfg.BlockedPrefixes = append(cfg.BlockedPrefixes, rule[1:])
		default:
			return nil, s.Fault("telemetry.prefix_filter", "%q does not begin with + or -", rule)
		}
	}
	core, err := metrics.NewGlobal(cfg, sinks)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	tel.core = core
	return tel, nil
}

// openPrometheus makes the sink and the handler for Prometheus. A metric that cannot be encoded
// is omitted, and the others are still returned.
func (t *telemetry) openPrometheus() (err error) {
	registry := prometheus.NewRegistry()
	t.expiry, err = promsink.NewPrometheusSinkFrom(promsink.PrometheusOpts{Registerer: registry, Expiration: promExpiry})
	if err != nil {
		return err
	}
	if err := registry.Register(gaugesAtRead{t}); err != nil {
		return err
	}
	t.prom = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return nil
}

// close stops the goroutines of the metrics library.
func (t *telemetry) close() { t.core.Shutdown() }

// runTelemetry sets the gauges of the process and the agent in each collection interval until ctx
// ends.
func (a *Agent) runTelemetry(ctx context.Context) error {
	if a.tel.expiry != nil {
		a.tel.expiry.RunBackgroundCleanup(ctx)
	}
	tick := time.NewTicker(a.set.Telemetry.CollectionInterval)
	defer tick.Stop()
	for {
		a.tel.core.EmitRuntimeStats()
		a.measure(a.tel.core)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
