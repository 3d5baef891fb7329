package taskhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// defaultStatsEvery is how often usage is sampled when the client names no interval.
const defaultStatsEvery = time.Second

// statsHook samples what the task uses: for those who ask, and as metrics.
type statsHook struct {
	every  time.Duration
	usage  func(*nomad.TaskResourceUsage)
	labels []metrics.Label
	log    *slog.Logger
}

func (*statsHook) Name() string { return "stats" }

func (h *statsHook) Poststart(_ context.Context, req *TaskPoststartRequest, resp *TaskPoststartResponse) error {
	every := h.every
	if every <= 0 {
		every = defaultStatsEvery
	}
	resp.Background = func(ctx context.Context) {
		select { // a task that ends before its first sample costs nothing
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		samples, err := req.Stats(ctx, every)
		if err != nil {
			h.log.Debug("no resource usage of the task", "err", err)
			return
		}
		for sample := range samples {
			usage := Usage(sample)
			h.usage(usage)
			h.publish(usage)
			h.press(sample.Pressure)
		}
	}
	return nil
}

// Exited forgets the last sample: the task uses nothing any more.
func (h *statsHook) Exited(context.Context, *TaskExitedRequest, *TaskExitedResponse) error {
	h.usage(nil)
	return nil
}

func (h *statsHook) publish(u *nomad.TaskResourceUsage) {
	cpu, mem := u.ResourceUsage.CpuStats, u.ResourceUsage.MemoryStats
	for name, value := range map[string]float64{
		"total_percent": cpu.Percent, "system": cpu.SystemMode, "user": cpu.UserMode,
		"throttled_time": float64(cpu.ThrottledTime), "throttled_periods": float64(cpu.ThrottledPeriods),
		"total_ticks": cpu.TotalTicks,
	} {
		metrics.SetGaugeWithLabels([]string{"client", "allocs", "cpu", name}, float32(value), h.labels)
	}
	for name, value := range map[string]uint64{
		"rss": mem.RSS, "cache": mem.Cache, "swap": mem.Swap, "usage": mem.Usage, "max_usage": mem.MaxUsage,
	} {
		metrics.SetGaugeWithLabels([]string{"client", "allocs", "memory", name}, float32(value), h.labels)
	}
}

// press publishes what the task waited for.
func (h *statsHook) press(on map[string]drivers.Pressure) {
	for resource, p := range on {
		metrics.SetGaugeWithLabels([]string{"client", "allocs", "pressure", resource, "some"}, float32(p.Some), h.labels)
		metrics.SetGaugeWithLabels([]string{"client", "allocs", "pressure", resource, "full"}, float32(p.Full), h.labels)
	}
}

// Usage is a driver's sample in the words of the API.
func Usage(s *drivers.ResourceUsage) *nomad.TaskResourceUsage {
	return &nomad.TaskResourceUsage{
		Timestamp: s.Timestamp.UnixNano(),
		ResourceUsage: &nomad.ResourceUsage{
			MemoryStats: &nomad.MemoryStats{
				RSS: s.MemoryRSS, Cache: s.MemoryCache, Swap: s.MemorySwap, Usage: s.MemoryUsage,
				MaxUsage: s.MemoryMaxUsage, Measured: s.MemoryMeasured,
			},
			CpuStats: &nomad.CpuStats{
				SystemMode: s.CPUSystem, UserMode: s.CPUUser, Percent: s.CPUPercent, TotalTicks: s.CPUTicks,
				ThrottledPeriods: s.ThrottledCount, ThrottledTime: s.ThrottledTime, Measured: s.CPUMeasured,
			},
		},
	}
}

// taskLabels are the labels of every metric of one task.
func taskLabels(a *nomad.Allocation, t *nomad.Task) []metrics.Label {
	return []metrics.Label{
		{Name: "job", Value: a.JobID}, {Name: "task_group", Value: a.TaskGroup},
		{Name: "alloc_id", Value: a.ID}, {Name: "task", Value: t.Name},
		{Name: "namespace", Value: a.Namespace},
	}
}
