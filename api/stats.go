package api

import (
	"strconv"
	"time"
)

// AllocResourceUsage is the current resource usage of an allocation.
type AllocResourceUsage struct {
	ResourceUsage *ResourceUsage
	Tasks         map[string]*TaskResourceUsage
	Timestamp     int64
}

// TaskResourceUsage is the current resource usage of a task.
type TaskResourceUsage struct {
	ResourceUsage *ResourceUsage
	Timestamp     int64
	Pids          map[string]*ResourceUsage
}

// ResourceUsage is the current resource usage of a task or process.
type ResourceUsage struct {
	MemoryStats *MemoryStats
	CpuStats    *CpuStats
	DeviceStats []*DeviceGroupStats
}

// MemoryStats is memory usage in bytes. Measured lists the fields that the driver measures.
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

// CpuStats is CPU usage in percent and ticks. Measured lists the fields that the driver
// measures.
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

// StatValue is one statistic. Exactly one of the value fields is set.
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

// String formats the value, such as "3 / 16 GiB".
func (v *StatValue) String() string {
	if v == nil {
		return "<none>"
	}
	var text string
	switch {
	case v.IntNumeratorVal != nil:
		text = strconv.FormatInt(*v.IntNumeratorVal, 10)
		if v.IntDenominatorVal != nil {
			text += " / " + strconv.FormatInt(*v.IntDenominatorVal, 10)
		}
	case v.FloatNumeratorVal != nil:
		text = strconv.FormatFloat(*v.FloatNumeratorVal, 'g', -1, 64)
		if v.FloatDenominatorVal != nil {
			text += " / " + strconv.FormatFloat(*v.FloatDenominatorVal, 'g', -1, 64)
		}
	case v.StringVal != nil:
		text = *v.StringVal
	case v.BoolVal != nil:
		text = strconv.FormatBool(*v.BoolVal)
	default:
		return "<none>"
	}
	if v.Unit != "" {
		text += " " + v.Unit
	}
	return text
}

// HostStats is the current resource usage of a node's host. Uptime is in seconds.
type HostStats struct {
	Memory           *HostMemoryStats
	CPU              []*HostCPUStats
	DiskStats        []*HostDiskStats
	AllocDirStats    *HostDiskStats
	DeviceStats      []*DeviceGroupStats
	Uptime           uint64
	CPUTicksConsumed float64
}

// HostMemoryStats is the memory of a host in bytes.
type HostMemoryStats struct {
	Total     uint64
	Available uint64
	Used      uint64
	Free      uint64
}

// HostCPUStats is the usage of one CPU of a host in percent.
type HostCPUStats struct {
	CPU    string
	User   float64
	System float64
	Idle   float64
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
