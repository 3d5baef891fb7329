package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TaskStats implements drivers.Driver. Without a control group a sample measures nothing, and its
// lists are empty. The end of the task is noticed with the next sample: a request that waits for it would cost a
// goroutine here and in the supervisor for every running task.
func (ts *Tasks) TaskStats(ctx context.Context, id string, interval time.Duration) (<-chan *drivers.ResourceUsage, error) {
	if interval <= 0 {
		return nil, fmt.Errorf("stats interval %v is not positive", interval)
	}
	m, err := ts.meter(id)
	if err != nil {
		return nil, err
	}
	over := func() bool { return !m.group.Exists() } // the supervisor removes it
	if m.group == nil {
		over = func() bool { return ts.over(ctx, id) }
	}
	ch := make(chan *drivers.ResourceUsage)
	go func() {
		defer close(ch)
		m.run(ctx, interval, over, ch)
	}()
	return ch, nil
}

// Meter implements drivers.Meterer.
func (ts *Tasks) Meter(id string) (func() *drivers.ResourceUsage, error) {
	m, err := ts.meter(id)
	if err != nil {
		return nil, err
	}
	return func() *drivers.ResourceUsage { return m.sample(time.Now()) }, nil
}

// meter returns the meter of a task.
func (ts *Tasks) meter(id string) (*meter, error) {
	s, err := ts.state(id)
	if err != nil {
		return nil, err
	}
	m := &meter{mhz: float64(s.MHzPerCore)}
	if s.measured == (proc.Group{}) {
		return m, nil
	}
	h, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	m.group, err = h.Open(s.measured.Parent, s.measured.Name)
	return m, err
}

// over reports whether the task has ended. If the supervisor does not answer, it has not.
func (ts *Tasks) over(ctx context.Context, id string) bool {
	t, err := ts.cfg.Supervisor.Brief(ctx, id)
	return errors.Is(err, proc.ErrUnknownTask) || err == nil && t.Exit != nil
}

// meter converts counters to rates.
type meter struct {
	group *cgroup.Group // nil: nothing to measure
	mhz   float64

	last   cgroup.Stats
	lastAt time.Time
}

// run sends a sample in each interval until ctx ends or over reports the end of the task.
func (m *meter) run(ctx context.Context, interval time.Duration, over func() bool, ch chan<- *drivers.ResourceUsage) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case ch <- m.sample(time.Now()):
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if over() {
			return
		}
	}
}

func (m *meter) sample(now time.Time) *drivers.ResourceUsage {
	u := &drivers.ResourceUsage{Timestamp: now}
	if m.group == nil {
		return u
	}
	s := m.group.Stats()
	u.MemoryUsage, u.MemoryRSS, u.MemoryCache = s.MemoryUsage, s.MemoryRSS, s.MemoryCache
	u.MemorySwap, u.MemoryMaxUsage = s.MemorySwap, s.MemoryPeak
	u.MemoryMeasured = []string{"RSS", "Cache", "Swap", "Usage", "Max Usage"}
	u.ThrottledTime, u.ThrottledCount = s.ThrottledTime, s.ThrottledPeriods
	u.CPUMeasured = []string{"System Mode", "User Mode", "Percent", "Total Ticks", "Throttled Periods", "Throttled Time"}
	if !m.lastAt.IsZero() {
		elapsed := float64(now.Sub(m.lastAt).Nanoseconds())
		u.CPUUser = percent(s.CPUUser, m.last.CPUUser, elapsed)
		u.CPUSystem = percent(s.CPUSystem, m.last.CPUSystem, elapsed)
		u.CPUPercent = percent(s.CPUTotal, m.last.CPUTotal, elapsed)
		u.CPUTicks = u.CPUPercent / 100 * m.mhz
	}
	m.last, m.lastAt = s, now
	u.Pressure = map[string]drivers.Pressure{}
	for resource, p := range m.group.Pressure() {
		u.Pressure[resource] = drivers.Pressure(p)
	}
	return u
}

func percent(now, before uint64, elapsed float64) float64 {
	if now <= before || elapsed <= 0 {
		return 0
	}
	return float64(now-before) / elapsed * 100
}
