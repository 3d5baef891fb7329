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

// readSink is given the gauges that are computed when metrics are read. Their number grows
// with the number of jobs: nothing of them is kept between two reads.
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

// read computes the gauges, with the prefix, the filters and the label host of all metrics.
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

// gaugesAtRead shows Prometheus the gauges that are computed at a read.
type gaugesAtRead struct{ t *telemetry }

// Describe implements prometheus.Collector. It names no metric: jobs come and go.
func (gaugesAtRead) Describe(chan<- *prometheus.Desc) {}

// promName is how the name of a metric is written for Prometheus.
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
