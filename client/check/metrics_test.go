package check

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// One metric counts the runs of scripts, another the runs that exceed their timeout. A script that fails in time counts
// only in the first.
func TestScriptMetrics(t *testing.T) {
	sink := metrics.NewInmemSink(time.Hour, time.Hour)
	cfg := metrics.DefaultConfig("")
	cfg.EnableHostname, cfg.EnableRuntimeMetrics = false, false
	if _, err := metrics.NewGlobal(cfg, sink); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the sink cannot be used in the synctest bubbles of other tests
		if _, err := metrics.NewGlobal(cfg, &metrics.BlackholeSink{}); err != nil {
			t.Error(err)
		}
	})
	hangs := func(ctx context.Context, _ []string) ([]byte, *drivers.ExitResult, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	ends := func(context.Context, []string) ([]byte, *drivers.ExitResult, error) {
		return nil, &drivers.ExitResult{ExitCode: 1}, nil
	}
	run := func(ctx context.Context, exec Exec, limit time.Duration) {
		p := &probe{execIn: func(string) Exec { return exec }}
		p.run(ctx, &Target{Type: nomad.ServiceCheckScript, In: "t", Command: []string{"x"}, Timeout: limit})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	run(t.Context(), ends, time.Hour)
	run(t.Context(), hangs, time.Millisecond)
	run(ended, hangs, time.Hour) // the task stops
	run(t.Context(), nil, time.Hour)
	counted := map[string]float64{}
	for _, interval := range sink.Data() {
		interval.RLock()
		for name, c := range interval.Counters {
			counted[name] += c.Sum
		}
		interval.RUnlock()
	}
	const prefix = "client.allocrunner.taskrunner."
	if runs, late := counted[prefix+"tasklet_runs"], counted[prefix+"tasklet_timeouts"]; runs != 3 || late != 1 {
		t.Errorf("%v runs and %v timeouts, want 3 and 1", runs, late)
	}
}
