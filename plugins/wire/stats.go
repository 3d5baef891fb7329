package wire

import (
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

var memoryFields = map[string]proto.MemoryUsage_Fields{
	"RSS": proto.MemoryUsage_RSS, "Cache": proto.MemoryUsage_CACHE, "Swap": proto.MemoryUsage_SWAP, "Usage": proto.MemoryUsage_USAGE,
	"Max Usage": proto.MemoryUsage_MAX_USAGE, "Kernel Usage": proto.MemoryUsage_KERNEL_USAGE,
	"Kernel Max Usage": proto.MemoryUsage_KERNEL_MAX_USAGE,
}

var cpuFields = map[string]proto.CPUUsage_Fields{
	"System Mode": proto.CPUUsage_SYSTEM_MODE, "User Mode": proto.CPUUsage_USER_MODE, "Total Ticks": proto.CPUUsage_TOTAL_TICKS,
	"Throttled Periods": proto.CPUUsage_THROTTLED_PERIODS, "Throttled Time": proto.CPUUsage_THROTTLED_TIME, "Percent": proto.CPUUsage_PERCENT,
}

// EncodeStats returns the message of a sample. The protocol has no pressure.
func EncodeStats(id string, u *drivers.ResourceUsage) *proto.TaskStats {
	return &proto.TaskStats{Id: id, Timestamp: EncodeTime(u.Timestamp), AggResourceUsage: &proto.TaskResourceUsage{
		Cpu: &proto.CPUUsage{SystemMode: u.CPUSystem, UserMode: u.CPUUser, TotalTicks: u.CPUTicks, Percent: u.CPUPercent,
			ThrottledPeriods: u.ThrottledCount, ThrottledTime: u.ThrottledTime, MeasuredFields: numbers(u.CPUMeasured, cpuFields)},
		Memory: &proto.MemoryUsage{Rss: u.MemoryRSS, Cache: u.MemoryCache, Swap: u.MemorySwap, Usage: u.MemoryUsage, MaxUsage: u.MemoryMaxUsage,
			MeasuredFields: numbers(u.MemoryMeasured, memoryFields)},
	}}
}

// DecodeStats returns the sample of a message.
func DecodeStats(m *proto.TaskStats) *drivers.ResourceUsage {
	cpu, memory := m.GetAggResourceUsage().GetCpu(), m.GetAggResourceUsage().GetMemory()
	return &drivers.ResourceUsage{
		Timestamp:   DecodeTime(m.GetTimestamp()),
		MemoryUsage: memory.GetUsage(), MemoryRSS: memory.GetRss(), MemoryCache: memory.GetCache(), MemorySwap: memory.GetSwap(),
		MemoryMaxUsage: memory.GetMaxUsage(), MemoryMeasured: names(memory.GetMeasuredFields(), memoryFields),
		CPUUser: cpu.GetUserMode(), CPUSystem: cpu.GetSystemMode(), CPUPercent: cpu.GetPercent(), CPUTicks: cpu.GetTotalTicks(),
		CPUMeasured: names(cpu.GetMeasuredFields(), cpuFields), ThrottledTime: cpu.GetThrottledTime(), ThrottledCount: cpu.GetThrottledPeriods(),
	}
}

// numbers returns the numbers of named fields.
func numbers[N comparable](list []string, table map[string]N) (out []N) {
	for _, name := range list {
		if n, ok := table[name]; ok {
			out = append(out, n)
		}
	}
	return out
}

// names returns the names of numbered fields, each once.
func names[N comparable](list []N, table map[string]N) (out []string) {
	seen := map[N]bool{}
	for _, n := range list {
		for name, number := range table {
			if number == n && !seen[n] {
				seen[n] = true
				out = append(out, name)
			}
		}
	}
	return out
}
