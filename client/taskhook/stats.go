package taskhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// defaultStatsEvery is the default sampling interval of resource usage.
const defaultStatsEvery = time.Second

// statsHook samples the task's resource usage for the API and, if enabled, for metrics.
type statsHook struct {
	sampler *Sampler // nil: only drivers that send samples
	remove  func()   // ends the samples of the sampler; nil if there are none
	every   time.Duration
	usage   func(*message.TaskResourceUsage)
	devices func() []*message.DeviceGroupStats
	metrics *taskMetrics // nil disables them
	log     *slog.Logger
}

func newStatsHook(c Config) hook.Hook {
	return &statsHook{sampler: c.Sampler, every: c.StatsEvery, usage: c.Usage, devices: deviceStats(c), metrics: newTaskMetrics(c), log: c.Log}
}

// deviceStats returns the function that samples the devices of a task.
func deviceStats(c Config) func() []*message.DeviceGroupStats {
	assigned := assignedDevices(c.Alloc, c.Task)
	if c.Devices == nil || len(assigned) == 0 {
		return func() []*message.DeviceGroupStats { return nil }
	}
	return func() []*message.DeviceGroupStats { return c.Devices.StatsOf(assigned) }
}

// assignedDevices returns the devices that the scheduler has assigned to a task.
func assignedDevices(a *nomad.Allocation, t *nomad.Task) []*nomad.AllocatedDeviceResource {
	if a == nil || t == nil || a.AllocatedResources == nil || a.AllocatedResources.Tasks[t.Name] == nil {
		return nil
	}
	return a.AllocatedResources.Tasks[t.Name].Devices
}

func (*statsHook) Name() string { return "stats" }

func (h *statsHook) Poststart(_ context.Context, req *TaskPoststartRequest, resp *TaskPoststartResponse) error {
	if h.sampler != nil && req.Meter != nil {
		measure, err := req.Meter()
		if err != nil {
			h.log.Debug("measure resource usage", "err", err)
			return nil
		}
		h.end()
		h.remove = h.sampler.add(measure, h.take)
		return nil
	}
	resp.Background = func(ctx context.Context) { h.follow(ctx, req.Stats) }
	return nil
}

// follow samples the usage with a driver that sends it.
func (h *statsHook) follow(ctx context.Context, stats StatsSource) {
	every := h.every
	if every <= 0 {
		every = defaultStatsEvery
	}
	select { // a task that exits before its first sample costs nothing
	case <-ctx.Done():
		return
	case <-time.After(every):
	}
	samples, err := stats(ctx, every)
	if err != nil {
		h.log.Debug("sample resource usage", "err", err)
		return
	}
	for sample := range samples {
		h.take(sample)
	}
}

// take passes a sample on.
func (h *statsHook) take(sample *drivers.ResourceUsage) {
	u := Usage(sample)
	u.ResourceUsage.DeviceStats = h.devices()
	h.usage(u)
	if h.metrics != nil {
		h.metrics.publish(sample)
	}
}

// end ends the samples.
func (h *statsHook) end() {
	if h.remove != nil {
		h.remove()
		h.remove = nil
	}
}

// Update takes the max_run_duration of a new version of the job.
func (h *statsHook) Update(_ context.Context, req *TaskUpdateRequest, _ *TaskUpdateResponse) error {
	if h.metrics != nil {
		h.metrics.setLimit(req.Alloc)
	}
	return nil
}

// Exited ends the samples and clears the last one.
func (h *statsHook) Exited(context.Context, *TaskExitedRequest, *TaskExitedResponse) error {
	h.end()
	h.usage(nil)
	return nil
}

// Stop ends the samples of a task that ended without Exited.
func (h *statsHook) Stop(context.Context, *TaskStopRequest, *TaskStopResponse) error {
	h.end()
	return nil
}

// Usage converts a driver's sample to the type of the API.
func Usage(s *drivers.ResourceUsage) *message.TaskResourceUsage {
	return &message.TaskResourceUsage{
		Timestamp: s.Timestamp.UnixNano(),
		ResourceUsage: &message.ResourceUsage{
			MemoryStats: &message.MemoryStats{
				RSS: s.MemoryRSS, Cache: s.MemoryCache, Swap: s.MemorySwap, Usage: s.MemoryUsage,
				MaxUsage: s.MemoryMaxUsage, Measured: s.MemoryMeasured,
			},
			CpuStats: &message.CpuStats{
				SystemMode: s.CPUSystem, UserMode: s.CPUUser, Percent: s.CPUPercent, TotalTicks: s.CPUTicks,
				ThrottledPeriods: s.ThrottledCount, ThrottledTime: s.ThrottledTime, Measured: s.CPUMeasured,
			},
		},
	}
}
