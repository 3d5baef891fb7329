package nomad

import "time"

// AllocResourceUsage holds the fields of an alloc resource usage.
type AllocResourceUsage struct {
	ResourceUsage *ResourceUsage
	Tasks         map[string]*TaskResourceUsage
	Timestamp     int64
}

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

// Attribute holds the fields of an attribute.
type Attribute struct {
	Float  *float64
	Int    *int64
	String *string
	Bool   *bool
	Unit   string
}

// ClientStatsResponse is the reply of ClientStats.Stats and ClientStats.Stats.
type ClientStatsResponse struct {
	HostStats *HostStats
	QueryMeta
}

// CpuStats holds the fields of a cpu stats.
type CpuStats struct {
	SystemMode       float64
	UserMode         float64
	TotalTicks       float64
	ThrottledPeriods uint64
	ThrottledTime    uint64
	Percent          float64
	Measured         []string
}

// DeviceGroupStats holds the fields of a device group stats.
type DeviceGroupStats struct {
	Vendor        string
	Type          string
	Name          string
	InstanceStats map[string]*DeviceStats
}

// DeviceStats holds the fields of a device stats.
type DeviceStats struct {
	Summary   *StatValue
	Stats     *StatObject
	Timestamp time.Time
}

// HostCPUStats holds the fields of a host cpu stats.
type HostCPUStats struct {
	CPU          string
	User         float64
	System       float64
	Idle         float64
	TotalPercent float64
	TotalTicks   float64
}

// HostDiskStats holds the fields of a host disk stats.
type HostDiskStats struct {
	Device            string
	Mountpoint        string
	Size              uint64
	Used              uint64
	Available         uint64
	UsedPercent       float64
	InodesUsedPercent float64
}

// HostMemoryStats holds the fields of a host memory stats.
type HostMemoryStats struct {
	Total     uint64
	Available uint64
	Used      uint64
	Free      uint64
}

// HostStats holds the fields of a host stats.
type HostStats struct {
	Memory           *HostMemoryStats
	CPU              []*HostCPUStats
	HostDiskStats    []*HostDiskStats
	AllocDirStats    *HostDiskStats
	DeviceStats      []*DeviceGroupStats
	Uptime           uint64
	Timestamp        int64
	CPUTicksConsumed float64
}

// MemoryStats holds the fields of a memory stats.
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

// ResourceUsage holds the fields of a resource usage.
type ResourceUsage struct {
	MemoryStats *MemoryStats
	CpuStats    *CpuStats
	DeviceStats []*DeviceGroupStats
}

// StatObject holds the fields of a stat object.
type StatObject struct {
	Nested     map[string]*StatObject
	Attributes map[string]*StatValue
}

// StatValue holds the fields of a stat value.
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

// TaskResourceUsage holds the fields of a task resource usage.
type TaskResourceUsage struct {
	ResourceUsage *ResourceUsage
	Timestamp     int64
	Pids          map[string]*ResourceUsage
}
