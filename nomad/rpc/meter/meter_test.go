package meter

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// sums adds up counters by name and labels.
type sums struct {
	metrics.BlackholeSink
	mu  sync.Mutex
	got map[string]float32
}

func (s *sums) IncrCounterWithLabels(key []string, val float32, labels []metrics.Label) {
	name := strings.Join(key, ".")
	for _, l := range labels {
		name += " " + l.Name + "=" + l.Value
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[name] += val
}

func (s *sums) of(name string) float32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[name]
}

// toSums makes the process's metrics go to the returned sums during the test.
func toSums(t *testing.T) *sums {
	t.Helper()
	sink := &sums{got: map[string]float32{}}
	if _, err := metrics.NewGlobal(&metrics.Config{FilterDefault: true}, sink); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := metrics.NewGlobal(&metrics.Config{}, &metrics.BlackholeSink{}); err != nil {
			t.Error(err)
		}
	})
	return sink
}

// row returns a row of a method table.
func row(name string) rpc.Method {
	return rpc.Handle[message.JobListRequest, message.JobListResponse](name, rpc.Anonymous, rpc.Here, nil)
}

// Calls of concurrent goroutines are passed on once per interval, and the last ones when the
// meter ends. Allocations share one label value unless AllocIDs is set.
func TestCounters(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		rate string
	}{
		"together":      {Config{}, "nomad.rpc.job.list identity=alloc"},
		"by allocation": {Config{AllocIDs: true}, "nomad.rpc.job.list identity=alloc:a1"},
		"no identity":   {Config{NoIdentities: true}, "nomad.rpc.job.list"},
	} {
		t.Run(name, func(t *testing.T) {
			sink := toSums(t)
			synctest.Test(t, func(t *testing.T) {
				m := ForServer(test.cfg)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- m.Run(ctx) }()
				call := &rpc.Call{Identity: &rbac.AuthenticatedIdentity{Claims: &idtoken.Claims{
					WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{AllocationID: "a1"}}}}
				var calls sync.WaitGroup
				for range 4 {
					calls.Go(func() {
						m.Called(row("Job.List"), call, time.Millisecond, nil)
						m.Forwarded("west")
					})
				}
				calls.Wait()
				if got := sink.of("nomad.rpc.request"); got != 0 {
					t.Errorf("%v requests were passed on at once", got)
				}
				time.Sleep(defaultEvery)
				synctest.Wait()
				for _, name := range []string{"nomad.rpc.request", "nomad.rpc.query", "nomad.rpc.cross-region.west", test.rate} {
					if got := sink.of(name); got != 4 {
						t.Errorf("%s = %v, want 4; got %v", name, got, sink.got)
					}
				}
				m.Called(row("Job.List"), call, time.Millisecond, nil)
				cancel()
				<-done
				if got := sink.of(test.rate); got != 5 {
					t.Errorf("%s = %v in the end, want 5", test.rate, got)
				}
			})
		})
	}
}
