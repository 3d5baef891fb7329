package taskhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// defaultStatsEvery is the default sampling interval of resource usage.
const defaultStatsEvery = time.Second

// statsHook samples the task's resource usage for the API and, if enabled, for metrics.
type statsHook struct {
	every   time.Duration
	usage   func(*nomad.TaskResourceUsage)
	metrics *taskMetrics // nil disables them
	log     *slog.Logger
}

func newStatsHook(c Config) hook.Hook {
	return &statsHook{every: c.StatsEvery, usage: c.Usage, metrics: newTaskMetrics(c), log: c.Log}
}

func (*statsHook) Name() string { return "stats" }

func (h *statsHook) Poststart(_ context.Context, req *TaskPoststartRequest, resp *TaskPoststartResponse) error {
	every := h.every
	if every <= 0 {
		every = defaultStatsEvery
	}
	resp.Background = func(ctx context.Context) {
		select { // a task that exits before its first sample costs nothing
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		samples, err := req.Stats(ctx, every)
		if err != nil {
			h.log.Debug("sample resource usage", "err", err)
			return
		}
		for sample := range samples {
			usage := Usage(sample)
			h.usage(usage)
			if h.metrics != nil {
				h.metrics.publish(sample)
			}
		}
	}
	return nil
}

// Update takes the max_run_duration of a new version of the job.
func (h *statsHook) Update(_ context.Context, req *TaskUpdateRequest, _ *TaskUpdateResponse) error {
	if h.metrics != nil {
		h.metrics.setLimit(req.Alloc)
	}
	return nil
}

// Exited clears the last sample.
func (h *statsHook) Exited(context.Context, *TaskExitedRequest, *TaskExitedResponse) error {
	h.usage(nil)
	return nil
}

// Usage converts a driver's sample to the type of the API.
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
