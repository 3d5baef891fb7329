package api

import "time"

// AllocResourceUsage is what an allocation uses now.
type AllocResourceUsage struct {
	ResourceUsage *ResourceUsage
	Tasks         map[string]*TaskResourceUsage
	Timestamp     int64
}

// TaskResourceUsage is what a task uses now.
type TaskResourceUsage struct {
	ResourceUsage *ResourceUsage
	Timestamp     int64
	Pids          map[string]*ResourceUsage
}

// ResourceUsage is what a task or process uses now.
type ResourceUsage struct {
	MemoryStats *MemoryStats
	CpuStats    *CpuStats
	DeviceStats []*DeviceGroupStats
}

// MemoryStats is memory in bytes. Measured names the fields that the driver measures.
type MemoryStats struct {
	RSS            uint64
	Cache          uint64
	Swap           uint64
	Usage          uint64
	MaxUsage       uint64
	KernelUsage    uint64
	KernelMaxUsage uint64
	Measured       []string
}

// CpuStats is CPU use in percent and ticks. Measured names the fields that the
// driver measures.
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

// StatObject is a tree of statistics.
type StatObject struct {
	Nested     map[string]*StatObject
	Attributes map[string]*StatValue
}

// StatValue is one statistic; the field that is set is its type.
type StatValue struct {
	FloatNumeratorVal   *float64 `json:",omitempty"`
	FloatDenominatorVal *float64 `json:",omitempty"`
	IntNumeratorVal     *int64   `json:",omitempty"`
	IntDenominatorVal   *int64   `json:",omitempty"`
	StringVal           *string  `json:",omitempty"`
	BoolVal             *bool    `json:",omitempty"`
	Unit                string   `json:",omitempty"`
	Desc                string   `json:",omitempty"`
}

// HostStats is what the machine of a node uses now. Uptime is in seconds.
type HostStats struct {
	Memory           *HostMemoryStats
	CPU              []*HostCPUStats
	DiskStats        []*HostDiskStats
	AllocDirStats    *HostDiskStats
	DeviceStats      []*DeviceGroupStats
	Uptime           uint64
	CPUTicksConsumed float64
}

// HostMemoryStats is the memory of a machine in bytes.
type HostMemoryStats struct {
	Total     uint64
	Available uint64
	Used      uint64
	Free      uint64
}

// HostCPUStats is the use of one CPU of a machine in percent.
type HostCPUStats struct {
	CPU    string
	User   float64
	System float64
	Idle   float64
}

// HostDiskStats is the use of a file system in bytes.
type HostDiskStats struct {
	Device            string
	Mountpoint        string
	Size              uint64
	Used              uint64
	Available         uint64
	UsedPercent       float64
	InodesUsedPercent float64
}
