package agent

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/go-metrics"
	promsink "github.com/hashicorp/go-metrics/prometheus"
)

// validSink is a Prometheus sink that accepts any label value. Prometheus rejects values that are
// not valid UTF-8, which job IDs may contain.
type validSink struct{ *promsink.PrometheusSink }

// validLabels replaces invalid UTF-8 in label values. It copies labels before a change, because
// other sinks read them too.
func validLabels(labels []metrics.Label) []metrics.Label {
	if !slices.ContainsFunc(labels, func(l metrics.Label) bool { return !utf8.ValidString(l.Value) }) {
		return labels
	}
	out := slices.Clone(labels)
	for i := range out {
		out[i].Value = strings.ToValidUTF8(out[i].Value, "\uFFFD")
	}
	return out
}

// SetGaugeWithLabels implements metrics.MetricSink.
func (s validSink) SetGaugeWithLabels(key []string, val float32, labels []metrics.Label) {
	s.PrometheusSink.SetGaugeWithLabels(key, val, validLabels(labels))
}

// SetPrecisionGaugeWithLabels implements metrics.PrecisionGaugeMetricSink.
func (s validSink) SetPrecisionGaugeWithLabels(key []string, val float64, labels []metrics.Label) {
	s.PrometheusSink.SetPrecisionGaugeWithLabels(key, val, validLabels(labels))
}

// IncrCounterWithLabels implements metrics.MetricSink.
func (s validSink) IncrCounterWithLabels(key []string, val float32, labels []metrics.Label) {
	s.PrometheusSink.IncrCounterWithLabels(key, val, validLabels(labels))
}

// AddSampleWithLabels implements metrics.MetricSink.
func (s validSink) AddSampleWithLabels(key []string, val float32, labels []metrics.Label) {
	s.PrometheusSink.AddSampleWithLabels(key, val, validLabels(labels))
}
