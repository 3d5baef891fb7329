package agent

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/go-metrics/datadog"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// sink is a sink of the metrics library without Shutdown. After a Shutdown, the sinks of other
// systems panic on the next metric, and libraries send metrics until the process ends.
type sink interface {
	metrics.MetricSink
	metrics.PrecisionGaugeMetricSink
}

// pushSink sends metrics to another system. It replaces the characters of label values that
// separate fields or lines in the protocols of these systems. Job IDs may contain them.
type pushSink struct{ sink }

// pushSinks returns the sinks of statsd, statsite and Datadog that are configured. They send
// asynchronously and drop metrics while the other system does not answer.
func pushSinks(s *config.Settings, log *slog.Logger) ([]metrics.MetricSink, error) {
	t := s.Telemetry
	var out []metrics.MetricSink
	if t.StatsdAddress != "" {
		to, err := metrics.NewStatsdSinkWithLogger(t.StatsdAddress, log.With("part", "statsd"))
		if err != nil {
			return nil, fmt.Errorf("statsd_address %q: %w", t.StatsdAddress, err)
		}
		out = append(out, pushSink{to})
	}
	if t.StatsiteAddress != "" {
		to, err := metrics.NewStatsiteSinkWithLogger(t.StatsiteAddress, log.With("part", "statsite"))
		if err != nil {
			return nil, fmt.Errorf("statsite_address %q: %w", t.StatsiteAddress, err)
		}
		out = append(out, pushSink{to})
	}
	if t.DatadogAddress != "" {
		to, err := datadog.NewDogStatsdSink(t.DatadogAddress, s.Name)
		if err != nil {
			return nil, fmt.Errorf("datadog_address %q: %w", t.DatadogAddress, err)
		}
		to.SetTags(t.DatadogTags)
		out = append(out, pushSink{to})
	}
	return out, nil
}

// separators are the characters with a meaning in the protocols.
const separators = "|#@,"

func plainLabels(labels []metrics.Label) []metrics.Label {
	special := func(r rune) bool { return strings.ContainsRune(separators, r) || unicode.IsControl(r) }
	if !slices.ContainsFunc(labels, func(l metrics.Label) bool { return strings.ContainsFunc(l.Value, special) }) {
		return labels
	}
	out := slices.Clone(labels) // other sinks read them too
	for i := range out {
		out[i].Value = strings.Map(func(r rune) rune {
			if special(r) {
				return '_'
			}
			return r
		}, out[i].Value)
	}
	return out
}

// SetGaugeWithLabels implements metrics.MetricSink.
func (p pushSink) SetGaugeWithLabels(key []string, val float32, labels []metrics.Label) {
	p.sink.SetGaugeWithLabels(key, val, plainLabels(labels))
}

// SetPrecisionGaugeWithLabels implements metrics.PrecisionGaugeMetricSink.
func (p pushSink) SetPrecisionGaugeWithLabels(key []string, val float64, labels []metrics.Label) {
	p.sink.SetPrecisionGaugeWithLabels(key, val, plainLabels(labels))
}

// IncrCounterWithLabels implements metrics.MetricSink.
func (p pushSink) IncrCounterWithLabels(key []string, val float32, labels []metrics.Label) {
	p.sink.IncrCounterWithLabels(key, val, plainLabels(labels))
}

// AddSampleWithLabels implements metrics.MetricSink.
func (p pushSink) AddSampleWithLabels(key []string, val float32, labels []metrics.Label) {
	p.sink.AddSampleWithLabels(key, val, plainLabels(labels))
}
