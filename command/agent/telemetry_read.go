package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// gaugeFunc sets a gauge.
type gaugeFunc = func(key []string, val float32, labels []metrics.Label)

// readSink receives the gauges that are computed when metrics are read. Nothing is kept between
// two reads, because the number of gauges grows with the number of jobs.
type readSink struct {
	metrics.BlackholeSink
	take func(key []string, val float32, labels map[string]string)
}

// SetGaugeWithLabels implements metrics.MetricSink.
func (s *readSink) SetGaugeWithLabels(key []string, val float32, labels []metrics.Label) {
	out := make(map[string]string, len(labels))
	for _, l := range labels {
		out[l.Name] = strings.ToValidUTF8(l.Value, "\uFFFD")
	}
	s.take(key, val, out)
}

// read computes the gauges. They have the same prefix, filters and host label as all metrics.
func (t *telemetry) read(take func(key []string, val float32, labels map[string]string)) {
	if t.atRead == nil {
		return
	}
	named, err := metrics.New(&t.core.Config, &readSink{take: take})
	if err != nil {
		panic("agent: bug: " + err.Error()) // the same configuration was accepted before
	}
	t.atRead(named.SetGaugeWithLabels)
}

// gaugesAtRead is a Prometheus collector for the gauges that are computed at each read.
type gaugesAtRead struct{ t *telemetry }

// Describe implements prometheus.Collector. It describes no metric, because the set of jobs
// changes.
func (gaugesAtRead) Describe(chan<- *prometheus.Desc) {}

// promName replaces characters that Prometheus does not allow in metric names.
var promName = strings.NewReplacer(".", "_", "-", "_", " ", "_", "=", "_", "/", "_")

// Collect implements prometheus.Collector.
func (g gaugesAtRead) Collect(ch chan<- prometheus.Metric) {
	g.t.read(func(key []string, val float32, labels map[string]string) {
		names := slices.Sorted(maps.Keys(labels))
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = labels[name]
		}
		name := promName.Replace(strings.Join(key, "_"))
		desc := prometheus.NewDesc(name, name, names, nil)
		shown, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, float64(val), values...)
		if err != nil {
			shown = prometheus.NewInvalidMetric(desc, err)
		}
		ch <- shown
	})
}
