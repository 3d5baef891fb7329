package process

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TaskStats implements drivers.Driver. Without a control group a sample measures nothing, and its
// lists are empty.
func (ts *Tasks) TaskStats(ctx context.Context, id string, interval time.Duration) (<-chan *drivers.ResourceUsage, error) {
	s, err := ts.state(id)
	if err != nil {
		return nil, err
	}
	if interval <= 0 {
		return nil, fmt.Errorf("stats interval %v is not positive", interval)
	}
	t, err := ts.Supervisor.Task(ctx, id)
	if err != nil {
		return nil, notFound(err)
	}
	m := &meter{mhz: float64(s.MHzPerCore)}
	if t.Group != (proc.Group{}) {
		h, err := cgroup.Detect()
		if err != nil {
			return nil, err
		}
		if m.group, err = h.Open(t.Group.Parent, t.Group.Name); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		ts.Supervisor.Wait(ctx, id) //nolint:errcheck // any end of the wait ends the samples
	}()
	ch := make(chan *drivers.ResourceUsage)
	go func() {
		defer close(ch)
		defer cancel()
		m.run(ctx, interval, ch)
	}()
	return ch, nil
}

// meter converts counters to rates.
type meter struct {
	group *cgroup.Group // nil: nothing to measure
	mhz   float64

	last   cgroup.Stats
	lastAt time.Time
}

func (m *meter) run(ctx context.Context, interval time.Duration, ch chan<- *drivers.ResourceUsage) {
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
		wall := float64(now.Sub(m.lastAt).Nanoseconds())
		u.CPUUser = percent(s.CPUUser, m.last.CPUUser, wall)
		u.CPUSystem = percent(s.CPUSystem, m.last.CPUSystem, wall)
		u.CPUPercent = percent(s.CPUTotal, m.last.CPUTotal, wall)
		u.CPUTicks = u.CPUPercent / 100 * m.mhz
	}
	m.last, m.lastAt = s, now
	u.Pressure = map[string]drivers.Pressure{}
	for resource, p := range m.group.Pressure() {
		u.Pressure[resource] = drivers.Pressure(p)
	}
	return u
}

func percent(now, before uint64, wall float64) float64 {
	if now <= before || wall <= 0 {
		return 0
	}
	return float64(now-before) / wall * 100
}
