package taskhook

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// taskMetrics publishes the resource usage and the allocated resources of one task.
type taskMetrics struct {
	labels    []metrics.Label
	cpu       int64 // MHz
	memory    int64 // bytes
	maxMemory int64 // bytes; 0 means none
	last      time.Time
	limit     atomic.Pointer[runLimit]
}

// runLimit is the max_run_duration of an allocation.
type runLimit struct {
	duration time.Duration
	deadline time.Time
}

// setLimit stores the max_run_duration of the allocation, if it has one.
func (m *taskMetrics) setLimit(a *nomad.Allocation) {
	at, ok := a.RunDeadline()
	if !ok {
		m.limit.Store(nil)
		return
	}
	m.limit.Store(&runLimit{at.Sub(time.Unix(0, a.CreateTime)), at})
}

// newTaskMetrics returns the publisher of a task's metrics, or nil if they are disabled.
func newTaskMetrics(c Config) *taskMetrics {
	if !c.Metrics.Allocs {
		return nil
	}
	m := &taskMetrics{labels: c.Metrics.Labels(c.Alloc, c.Task)}
	m.setLimit(c.Alloc)
	if r := c.Alloc.AllocatedResources; r != nil && r.Tasks[c.Task.Name] != nil {
		given := r.Tasks[c.Task.Name]
		m.cpu, m.memory, m.maxMemory = given.Cpu.CpuShares, given.Memory.MemoryMB<<20, given.Memory.MemoryMaxMB<<20
	}
	return m
}

// publish sets the gauges from one sample.
func (m *taskMetrics) publish(s *drivers.ResourceUsage) {
	for _, one := range []struct {
		kind, name string
		value      float64
	}{
		{"cpu", "total_percent", s.CPUPercent}, {"cpu", "system", s.CPUSystem}, {"cpu", "user", s.CPUUser},
		{"cpu", "throttled_time", float64(s.ThrottledTime)}, {"cpu", "throttled_periods", float64(s.ThrottledCount)},
		{"cpu", "total_ticks", s.CPUTicks}, {"cpu", "allocated", float64(m.cpu)},
		{"memory", "rss", float64(s.MemoryRSS)}, {"memory", "cache", float64(s.MemoryCache)},
		{"memory", "swap", float64(s.MemorySwap)}, {"memory", "usage", float64(s.MemoryUsage)},
		{"memory", "max_usage", float64(s.MemoryMaxUsage)}, {"memory", "allocated", float64(m.memory)},
	} {
		m.gauge(one.value, one.kind, one.name)
	}
	if m.maxMemory > 0 {
		m.gauge(float64(m.maxMemory), "memory", "max_allocated")
	}
	if l := m.limit.Load(); l != nil {
		m.gauge(l.duration.Seconds(), "max_run_duration", "configured_seconds")
		m.gauge(max(time.Until(l.deadline), 0).Seconds(), "max_run_duration", "remaining_seconds")
	}
	m.countTicks(s)
	for resource, p := range s.Pressure {
		m.gauge(p.Some, "pressure", resource, "some")
		m.gauge(p.Full, "pressure", resource, "full")
	}
}

// countTicks adds the ticks since the last sample: the rate in MHz times the seconds between
// the samples.
func (m *taskMetrics) countTicks(s *drivers.ResourceUsage) {
	if between := s.Timestamp.Sub(m.last).Seconds(); !m.last.IsZero() && between > 0 {
		metrics.IncrCounterWithLabels([]string{"client", "allocs", "cpu", "total_ticks_count"}, float32(s.CPUTicks*between), m.labels)
	}
	m.last = s.Timestamp
}

func (m *taskMetrics) gauge(value float64, name ...string) {
	metrics.SetGaugeWithLabels(append([]string{"client", "allocs"}, name...), float32(value), m.labels)
}
