package template_test

import (
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"
)

// An outage has a metric with its age, which is 0 again afterwards.
func TestStaleMetric(t *testing.T) {
	t.Parallel() // it mostly waits
	sink := metrics.NewInmemSink(time.Hour, time.Hour)
	cfg := metrics.DefaultConfig("")
	cfg.EnableHostname, cfg.EnableRuntimeMetrics = false, false
	if _, err := metrics.NewGlobal(cfg, sink); err != nil {
		t.Fatal(err)
	}
	stale := func() float32 {
		age := float32(-1)
		for _, interval := range sink.Data() {
			interval.RLock()
			for _, g := range interval.Gauges {
				if g.Name == "client.template.stale_seconds" && g.Labels[0].Value == t.Name() {
					age = g.Value
				}
			}
			interval.RUnlock()
		}
		return age
	}
	w := newWorld(t)
	w.vars.Set("a", map[string]string{"x": "1"})
	w.runs(variable("local/a", "a", "x"))
	w.vars.Fail(500)
	w.until("the age grows", func() bool { return stale() > 0 })
	w.vars.Fail(0)
	w.until("the age is 0 again", func() bool { return stale() == 0 })
}
