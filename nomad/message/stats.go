package message

import "time"

// AllocStatsRequest is the request of ClientAllocations.Stats and Allocations.Stats.
type AllocStatsRequest struct {
	AllocID string
	Task    string
	QueryOptions
}

// AllocStatsResponse is the reply of ClientAllocations.Stats and Allocations.Stats.
type AllocStatsResponse struct {
	Stats *AllocResourceUsage
	QueryMeta
}

// ClientStatsResponse is the reply of ClientStats.Stats.
type ClientStatsResponse struct {
	HostStats *HostStats
	QueryMeta
}

// AllocResourceUsage is the current resource usage of an allocation. The client reports it. Timestamp is in Unix
// nanoseconds.
type AllocResourceUsage struct {
	ResourceUsage *ResourceUsage
	Tasks         map[string]*TaskResourceUsage
	Timestamp     int64
}

// CpuStats is CPU usage: modes in percent, ticks in nomad.MHz, throttled time in nanoseconds. Measured lists the fields that
// the driver measures.
type CpuStats struct {
	SystemMode       float64
	UserMode         float64
	TotalTicks       float64
	ThrottledPeriods uint64
	ThrottledTime    uint64
	Percent          float64
	Measured         []string
}

// DeviceGroupStats are statistics of the instances of a device.
type DeviceGroupStats struct {
	Vendor        string
	Type          string
	Name          string
	InstanceStats map[string]*DeviceStats
}

// DeviceStats are statistics of one device instance.
type DeviceStats struct {
	Summary   *StatValue
	Stats     *StatObject
	Timestamp time.Time
}

// HostCPUStats is the usage of one CPU of a machine in percent.
type HostCPUStats struct {
	CPU          string
	User         float64
	System       float64
	Idle         float64
	TotalPercent float64
	TotalTicks   float64
}

// HostDiskStats is the usage of a file system in bytes.
type HostDiskStats struct {
	Device            string
	Mountpoint        string
	Size              uint64
	Used              uint64
	Available         uint64
	UsedPercent       float64
	InodesUsedPercent float64
}

// HostMemoryStats is the memory usage of a machine in bytes.
type HostMemoryStats struct {
	Total     uint64
	Available uint64
	Used      uint64
	Free      uint64
}

// HostStats is the current resource usage of a node's machine. Uptime is in seconds, Timestamp in Unix nanoseconds.
type HostStats struct {
	Memory           *HostMemoryStats
	CPU              []*HostCPUStats
	DiskStats        []*HostDiskStats
	AllocDirStats    *HostDiskStats
	DeviceStats      []*DeviceGroupStats
	Uptime           uint64
	Timestamp        int64
	CPUTicksConsumed float64
}

// MemoryStats is memory usage in bytes. Measured lists the fields that the driver measures.
type MemoryStats struct {
	RSS            uint64
	Cache          uint64
	Swap           uint64
	MappedFile     uint64
	Usage          uint64
	MaxUsage       uint64
	KernelUsage    uint64
	KernelMaxUsage uint64
	Measured       []string
}

// ResourceUsage is the current resource usage of a task or process.
type ResourceUsage struct {
	MemoryStats *MemoryStats
	CpuStats    *CpuStats
	DeviceStats []*DeviceGroupStats
}

// StatObject is a tree of statistics.
type StatObject struct {
	Nested     map[string]*StatObject
	Attributes map[string]*StatValue
}

// StatValue is one statistic. The non-nil field determines the type.
type StatValue struct {
	FloatNumeratorVal   *float64
	FloatDenominatorVal *float64
	IntNumeratorVal     *int64
	IntDenominatorVal   *int64
	StringVal           *string
	BoolVal             *bool
	Unit                string
	Desc                string
}

// TaskResourceUsage is the current resource usage of a task, in total and by process ID.
type TaskResourceUsage struct {
	ResourceUsage *ResourceUsage
	Timestamp     int64
	Pids          map[string]*ResourceUsage
}
