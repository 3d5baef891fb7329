package agent

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-metrics"
)

// listSink writes down what it is given.
type listSink struct {
	metrics.BlackholeSink
	mu   sync.Mutex
	got  []string
	ends int
}

func (s *listSink) note(kind string, key []string, val float64, labels []metrics.Label) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, fmt.Sprintf("%s %s=%v%v", kind, strings.Join(key, "."), val, labels))
}

func (s *listSink) SetGaugeWithLabels(key []string, val float32, labels []metrics.Label) {
	s.note("gauge", key, float64(val), labels)
}

func (s *listSink) SetPrecisionGaugeWithLabels(key []string, val float64, labels []metrics.Label) {
	s.note("precise", key, val, labels)
}

func (s *listSink) EmitKey(key []string, val float32) { s.note("key", key, float64(val), nil) }

func (s *listSink) IncrCounterWithLabels(key []string, val float32, labels []metrics.Label) {
	s.note("counter", key, float64(val), labels)
}

func (s *listSink) AddSampleWithLabels(key []string, val float32, labels []metrics.Label) {
	s.note("sample", key, float64(val), labels)
}

func (s *listSink) Shutdown() { s.ends++ }

func (s *listSink) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// TestDeferredSink: every kind of value comes to the sinks as it was given, in order,
// a moment later, time and again.
func TestDeferredSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := &listSink{}
		d := &deferredSink{to: metrics.FanoutSink{list}}
		one := []metrics.Label{{Name: "a", Value: "b"}}
		for range 3 {
			d.SetGauge([]string{"g"}, 1)
			d.SetGaugeWithLabels([]string{"g", "l"}, 2, one)
			d.SetPrecisionGauge([]string{"p"}, 16777217)
			d.SetPrecisionGaugeWithLabels([]string{"p", "l"}, 4, one)
			d.EmitKey([]string{"k"}, 5)
			d.IncrCounter([]string{"c"}, 6)
			d.IncrCounterWithLabels([]string{"c", "l"}, 7, one)
			d.AddSample([]string{"s"}, 8)
			d.AddSampleWithLabels([]string{"s", "l"}, 0.25, one)
			synctest.Wait()
			if got := list.list(); len(got) > 0 {
				t.Fatalf("the sink was given %q at once", got)
			}
			time.Sleep(putOff)
			synctest.Wait()
			want := []string{"gauge g=1[]", "gauge g.l=2[{a b}]", "precise p=1.6777217e+07[]", "precise p.l=4[{a b}]", "key k=5[]",
				"counter c=6[]", "counter c.l=7[{a b}]", "sample s=8[]", "sample s.l=0.25[{a b}]"}
			if got := list.list(); !slices.Equal(got, want) {
				t.Fatalf("the sink was given\n%q, want\n%q", got, want)
			}
			list.got = nil
		}
		d.IncrCounter([]string{"last"}, 1)
		d.Shutdown()
		if len(list.got) != 1 || list.ends != 1 {
			t.Errorf("in the end the sink was given %q and ended %d times", list.got, list.ends)
		}
	})
}

// TestDeferredSinkIsBounded: what comes faster than time goes is given away at once.
func TestDeferredSinkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := &listSink{}
		d := &deferredSink{to: metrics.FanoutSink{list}}
		for range mostReadings + 1 {
			d.IncrCounter([]string{"c"}, 1)
		}
		if got := len(list.list()); got != mostReadings {
			t.Errorf("%d values were given, want %d", got, mostReadings)
		}
		d.flush()
		if got := len(list.list()); got != mostReadings+1 {
			t.Errorf("%d values were given in the end, want %d", got, mostReadings+1)
		}
	})
}

// TestMetricsAreWhole: who reads metrics misses nothing that waits.
func TestMetricsAreWhole(t *testing.T) {
	s := &Settings{}
	s.Telemetry.InMemoryCollectionInterval, s.Telemetry.InMemoryRetentionPeriod = time.Hour, time.Hour
	s.Telemetry.CollectionInterval, s.Telemetry.PrometheusMetrics, s.Telemetry.FilterDefault = time.Hour, true, true
	tel, err := newTelemetry(s)
	if err != nil {
		t.Fatal(err)
	}
	defer tel.close()
	tel.core.IncrCounter([]string{"one"}, 1)
	shown, err := tel.display(nil, nil)
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

// TestMetricsTakeAnyLabel: a label that is not UTF-8, as the ID of a job may be, does not hide
// the metrics from Prometheus.
func TestMetricsTakeAnyLabel(t *testing.T) {
	s := &Settings{}
	s.Telemetry.InMemoryCollectionInterval, s.Telemetry.InMemoryRetentionPeriod = time.Hour, time.Hour
	s.Telemetry.CollectionInterval, s.Telemetry.PrometheusMetrics, s.Telemetry.FilterDefault = time.Hour, true, true
	tel, err := newTelemetry(s)
	if err != nil {
		t.Fatal(err)
	}
	defer tel.close()
	bad := []metrics.Label{{Name: "job", Value: "a\xff"}}
	tel.atRead = func(set gaugeFunc) { set([]string{"read"}, 1, bad) }
	tel.core.IncrCounterWithLabels([]string{"kept"}, 1, bad)
	w := httptest.NewRecorder()
	tel.prom.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	for _, want := range []string{`nomad_kept{`, `nomad_read{`, "job=\"a\uFFFD\""} {
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("prometheus = %d %s, want %s", w.Code, w.Body, want)
		}
	}
}
