package agent

import (
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-metrics"
	promsink "github.com/hashicorp/go-metrics/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// telemetry holds the sinks of the process's metrics: one in memory, which
// /v1/metrics shows, and when asked for one for Prometheus.
type telemetry struct {
	memory *metrics.InmemSink
	prom   http.Handler // nil when off
	late   *deferredSink
	core   *metrics.Metrics
}

// newTelemetry makes the sinks and the global metrics that libraries write to.
func newTelemetry(s *Settings) (*telemetry, error) {
	t := s.Telemetry
	if t.InMemoryCollectionInterval <= 0 || t.InMemoryRetentionPeriod < t.InMemoryCollectionInterval {
		return nil, s.fault("telemetry.in_memory_retention_period", "must not be below in_memory_collection_interval, a positive duration")
	}
	if t.CollectionInterval <= 0 {
		return nil, s.fault("telemetry.collection_interval", "a positive duration is expected")
	}
	memory := metrics.NewInmemSink(t.InMemoryCollectionInterval, t.InMemoryRetentionPeriod)
	tel := &telemetry{memory: memory, late: &deferredSink{to: metrics.FanoutSink{memory}}}
	if t.PrometheusMetrics {
		registry := prometheus.NewRegistry()
		sink, err := promsink.NewPrometheusSinkFrom(promsink.PrometheusOpts{Registerer: registry, Expiration: time.Minute})
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		tel.late.to = append(tel.late.to, sink)
		shown := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
		tel.prom = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tel.late.flush()
			shown.ServeHTTP(w, r)
		})
	}
	cfg := metrics.DefaultConfig("nomad")
	cfg.EnableHostname, cfg.EnableHostnameLabel = false, !t.DisableHostname
	if t.UseNodeName {
		cfg.HostName = s.Name
	}
	cfg.FilterDefault = t.FilterDefault
	cfg.ProfileInterval = t.CollectionInterval
	for _, rule := range t.PrefixFilter {
		switch {
		case len(rule) > 1 && rule[0] == '+':
			cfg.AllowedPrefixes = append(cfg.AllowedPrefixes, rule[1:])
		case len(rule) > 1 && rule[0] == '-':
			cfg.BlockedPrefixes = append(cfg.BlockedPrefixes, rule[1:])
		default:
			return nil, s.fault("telemetry.prefix_filter", "%q does not begin with + or -", rule)
		}
	}
	core, err := metrics.NewGlobal(cfg, tel.late)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	tel.core = core
	return tel, nil
}

// display is the summary of the last whole interval.
func (t *telemetry) display(w http.ResponseWriter, r *http.Request) (any, error) {
	t.late.flush()
	return t.memory.DisplayMetrics(w, r)
}

// close ends what the library runs.
func (t *telemetry) close() { t.core.Shutdown() }
