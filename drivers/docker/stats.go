package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// maxStatsWait limits the delay after a failed sample.
const maxStatsWait = 2 * time.Minute

// TaskStats implements drivers.Driver.
func (d *Driver) TaskStats(ctx context.Context, id string, interval time.Duration) (<-chan *drivers.ResourceUsage, error) {
	if interval <= 0 {
		return nil, fmt.Errorf("stats interval %v is not positive", interval)
	}
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	ch := make(chan *drivers.ResourceUsage)
	go func() {
		defer close(ch)
		d.sample(ctx, t, interval, ch)
	}()
	return ch, nil
}

func (d *Driver) sample(ctx context.Context, t *task, interval time.Duration, ch chan<- *drivers.ResourceUsage) {
	wait, last := interval, (*container.StatsResponse)(nil)
	for {
		now, err := d.statsOnce(ctx, t.container, last == nil)
		if err == nil && !now.Read.IsZero() && !t.over() {
			if last != nil {
				now.PreCPUStats = last.CPUStats
			}
			last, wait = now, interval
			select {
			case ch <- usage(now, t.state.MHzPerCore):
			case <-ctx.Done():
				return
			case <-t.done:
				return
			}
		} else {
			wait = min(2*max(wait, time.Second), maxStatsWait)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.done:
			return
		case <-time.After(wait):
		}
	}
}

// statsOnce takes one sample. The first one has a previous sample of the daemon.
func (d *Driver) statsOnce(ctx context.Context, id string, first bool) (*container.StatsResponse, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	resp, err := d.api.ContainerStats(ctx, id, client.ContainerStatsOptions{IncludePreviousSample: first})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // a stream that was read
	s := &container.StatsResponse{}
	return s, json.NewDecoder(resp.Body).Decode(s)
}

// usage converts a sample. Memory is that of control groups of version 1 or 2.
func usage(s *container.StatsResponse, mhz uint64) *drivers.ResourceUsage {
	m := s.MemoryStats
	u := &drivers.ResourceUsage{
		Timestamp: s.Read, MemoryUsage: m.Usage, MemoryMaxUsage: m.MaxUsage, MemoryRSS: either(m.Stats, "rss", "anon"),
		MemoryCache: either(m.Stats, "cache", "file"), MemorySwap: m.Stats["swap"], MemoryMeasured: []string{"RSS", "Cache", "Swap", "Usage"},
		CPUMeasured:    []string{"Throttled Periods", "Throttled Time", "Percent"},
		ThrottledCount: s.CPUStats.ThrottlingData.ThrottledPeriods, ThrottledTime: s.CPUStats.ThrottlingData.ThrottledTime,
	}
	if m.MaxUsage > 0 {
		u.MemoryMeasured = append(u.MemoryMeasured, "Max Usage")
	}
	now, before := s.CPUStats, s.PreCPUStats
	total := delta(now.CPUUsage.TotalUsage, before.CPUUsage.TotalUsage)
	system := delta(now.SystemUsage, before.SystemUsage)
	if total <= 0 || system <= 0 {
		return u
	}
	cores := float64(max(now.OnlineCPUs, 1))
	u.CPUPercent = total / system * cores * 100
	u.CPUSystem = delta(now.CPUUsage.UsageInKernelmode, before.CPUUsage.UsageInKernelmode) / system * cores * 100
	u.CPUUser = delta(now.CPUUsage.UsageInUsermode, before.CPUUsage.UsageInUsermode) / system * cores * 100
	u.CPUTicks = u.CPUPercent / 100 * float64(mhz)
	return u
}

// either returns the first value that is not 0.
func either(stats map[string]uint64, names ...string) uint64 {
	for _, name := range names {
		if v := stats[name]; v > 0 {
			return v
		}
	}
	return 0
}

// delta returns the growth of a counter, negative if it was reset.
func delta(now, before uint64) float64 { return float64(now) - float64(before) }
