package agent

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-metrics"
)

// deferredSink keeps what is measured and gives it to the sinks a moment later, in the
// order in which it came. The sinks take some three µs for a value, and Prometheus' summaries at
// times much more: the start of a task, which measures fifty on its way, need not wait for
// that. Who reads the sinks calls flush first.
type deferredSink struct {
	to metrics.FanoutSink

	giving sync.Mutex // one batch at a time
	room   []reading  // for the batch after the next

	mu      sync.Mutex
	waiting []reading
}

const (
	// putOff is how long a value waits, at most.
	putOff = 100 * time.Millisecond
	// mostReadings bounds those that wait: who brings more gives them to the sinks itself.
	mostReadings = 1 << 14
	// keptRoom is what is kept between batches: a server that takes writes as fast as it can
	// needs no more.
	keptRoom = 1 << 12
)

// reading is one value that was measured, and how a sink takes it. Like the sinks it keeps
// the key and the labels: nobody writes to them.
type reading struct {
	give   func(to metrics.FanoutSink, r *reading)
	key    []string
	value  float64
	labels []metrics.Label
}

func (d *deferredSink) add(r reading) {
	d.mu.Lock()
	d.waiting = append(d.waiting, r)
	n := len(d.waiting)
	d.mu.Unlock()
	switch {
	case n == 1:
		time.AfterFunc(putOff, d.flush)
	case n >= mostReadings:
		d.flush()
	}
}

// flush gives the sinks everything that waits.
func (d *deferredSink) flush() {
	d.giving.Lock()
	defer d.giving.Unlock()
	d.mu.Lock()
	batch := d.waiting
	d.waiting, d.room = d.room, nil
	d.mu.Unlock()
	for i := range batch {
		batch[i].labels = validLabels(batch[i].labels)
		batch[i].give(d.to, &batch[i])
	}
	if cap(batch) <= keptRoom {
		clear(batch)
		d.room = batch[:0]
	}
}

// validLabels replaces what is not UTF-8 in the values of labels: Prometheus takes no other.
// The labels are copied then, since others read them too.
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

// Shutdown implements metrics.ShutdownSink.
func (d *deferredSink) Shutdown() {
	d.flush()
	d.to.Shutdown()
}

// What a kind of value is given to the sinks by.
func giveGauge(to metrics.FanoutSink, r *reading) {
	to.SetGaugeWithLabels(r.key, float32(r.value), r.labels)
}

func givePreciseGauge(to metrics.FanoutSink, r *reading) {
	to.SetPrecisionGaugeWithLabels(r.key, r.value, r.labels)
}

func giveKey(to metrics.FanoutSink, r *reading) { to.EmitKey(r.key, float32(r.value)) }

func giveCounter(to metrics.FanoutSink, r *reading) {
	to.IncrCounterWithLabels(r.key, float32(r.value), r.labels)
}

func giveSample(to metrics.FanoutSink, r *reading) {
	to.AddSampleWithLabels(r.key, float32(r.value), r.labels)
}

// SetGauge implements metrics.MetricSink.
func (d *deferredSink) SetGauge(key []string, val float32) { d.SetGaugeWithLabels(key, val, nil) }

// SetGaugeWithLabels implements metrics.MetricSink.
func (d *deferredSink) SetGaugeWithLabels(key []string, val float32, labels []metrics.Label) {
	d.add(reading{giveGauge, key, float64(val), labels})
}

// SetPrecisionGauge implements metrics.PrecisionGaugeMetricSink.
func (d *deferredSink) SetPrecisionGauge(key []string, val float64) {
	d.SetPrecisionGaugeWithLabels(key, val, nil)
}

// SetPrecisionGaugeWithLabels implements metrics.PrecisionGaugeMetricSink.
func (d *deferredSink) SetPrecisionGaugeWithLabels(key []string, val float64, labels []metrics.Label) {
	d.add(reading{givePreciseGauge, key, val, labels})
}

// EmitKey implements metrics.MetricSink.
func (d *deferredSink) EmitKey(key []string, val float32) {
	d.add(reading{giveKey, key, float64(val), nil})
}

// IncrCounter implements metrics.MetricSink.
func (d *deferredSink) IncrCounter(key []string, val float32) { d.IncrCounterWithLabels(key, val, nil) }

// IncrCounterWithLabels implements metrics.MetricSink.
func (d *deferredSink) IncrCounterWithLabels(key []string, val float32, labels []metrics.Label) {
	d.add(reading{giveCounter, key, float64(val), labels})
}

// AddSample implements metrics.MetricSink.
func (d *deferredSink) AddSample(key []string, val float32) { d.AddSampleWithLabels(key, val, nil) }

// AddSampleWithLabels implements metrics.MetricSink.
func (d *deferredSink) AddSampleWithLabels(key []string, val float32, labels []metrics.Label) {
	d.add(reading{giveSample, key, float64(val), labels})
}
