package agent

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// TestMetricsAreWhole checks that a value is shown as soon as it is measured.
func TestMetricsAreWhole(t *testing.T) {
	s := &config.Settings{}
	s.Telemetry.InMemoryCollectionInterval, s.Telemetry.InMemoryRetentionPeriod = time.Hour, time.Hour
	s.Telemetry.CollectionInterval, s.Telemetry.PrometheusMetrics, s.Telemetry.FilterDefault = time.Hour, true, true
	tel, err := newTelemetry(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tel.close()
	tel.core.IncrCounter([]string{"one"}, 1)
	shown, err := tel.memory.DisplayMetrics(nil, nil)
	if s, ok := shown.(metrics.MetricsSummary); err != nil || !ok || len(s.Counters) != 1 || s.Counters[0].Name != "nomad.one" {
		t.Errorf("metrics = %v, %v, want nomad.one", shown, err)
	}
	tel.core.IncrCounter([]string{"two"}, 1)
	w := httptest.NewRecorder()
	tel.prom.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if !strings.Contains(w.Body.String(), "\nnomad_two{") {
		t.Errorf("prometheus = %s, want nomad_two", w.Body)
	}
}

// TestMetricsTakeAnyLabel checks that a label that is not UTF-8, such as a job ID, does not prevent
// Prometheus from reading the metrics.
func TestMetricsTakeAnyLabel(t *testing.T) {
	s := &config.Settings{}
	s.Telemetry.InMemoryCollectionInterval, s.Telemetry.InMemoryRetentionPeriod = time.Hour, time.Hour
	s.Telemetry.CollectionInterval, s.Telemetry.PrometheusMetrics, s.Telemetry.FilterDefault = time.Hour, true, true
	tel, err := newTelemetry(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tel.close()
	bad := []metrics.Label{{Name: "job", Value: "a\xff"}}
	tel.atRead = func(set gaugeFunc) { set([]string{"read"}, 1, bad) }
	tel.core.IncrCounterWithLabels([]string{"kept"}, 1, bad)
	tel.core.AddSampleWithLabels([]string{"sampled"}, 1, bad)
	tel.core.SetGaugeWithLabels([]string{"set"}, 1, bad)
	tel.core.SetPrecisionGaugeWithLabels([]string{"precise"}, 1, bad)
	w := httptest.NewRecorder()
	tel.prom.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	for _, want := range []string{`nomad_kept{`, `nomad_sampled{`, `nomad_set{`, `nomad_precise{`, `nomad_read{`, "job=\"a\uFFFD\""} {
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("prometheus = %d %s, want %s", w.Code, w.Body, want)
		}
	}
}
