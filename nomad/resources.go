package nomad

// Values of resources blocks.
const (
	NoneNUMA        = "none"
	PreferNUMA      = "prefer"
	RequireNUMA     = "require"
	BytesInMegabyte = 1 << 20
	MemoryNoLimit   = -1
)

// MemoryUnbounded is the amount, in MiB, that is counted for the memory limit of a task without one. It exceeds any quota.
const MemoryUnbounded = 1 << 40

// Core is one CPU core of a node. Speeds are in MHz. If Disable is set, the core is not available to allocations.
type Core struct {
	SocketID   SocketID
	NodeID     NUMANodeID
	ID         CoreID
	Grade      CoreGrade
	Disable    bool
	BaseSpeed  MHz
	MaxSpeed   MHz
	GuessSpeed MHz
}

// CoreGrade is true for a performance core and false for an efficiency core.
type CoreGrade bool

// CoreID is the kernel's number of a core.
type CoreID uint16

// Cost is the distance between two NUMA nodes as reported by the kernel. The distance of a node to itself is 10.
type Cost uint8

// MHz is a processor speed.
type MHz uint64

// NUMA specifies whether the cores of a task must belong to the same NUMA node. Devices are the names of device blocks
// of the task whose instances must belong to it too.
type NUMA struct {
	Affinity string
	Devices  []string
}

// Binds reports whether cores of one NUMA node are preferred or required.
func (n *NUMA) Binds() bool { return n != nil && n.Affinity != "" && n.Affinity != NoneNUMA }

// NUMANodeID is the kernel's number of a NUMA node.
type NUMANodeID uint8

// RequestedDevice requests Count instances of a device such as a GPU. Name is vendor/type/name or a part of it.
type RequestedDevice struct {
	Name        string
	Count       uint64
	Constraints Constraints
	Affinities  Affinities
}

// ResourceDevices is the list of devices that a task requests.
type ResourceDevices []*RequestedDevice

// Resources are the resources that a task requests: CPU in MHz or whole cores; memory, disk and secrets in MiB.
type Resources struct {
	CPU         int
	Cores       int
	MemoryMB    int
	MemoryMaxMB int
	DiskMB      int
	IOPS        int
	Networks    Networks
	Devices     ResourceDevices
	NUMA        *NUMA
	SecretsMB   int
}

// SLIT is the table of distances between NUMA nodes.
type SLIT [][]Cost

// SocketID is the kernel's number of a processor socket.
type SocketID uint8

// Topology is the CPU topology of a node: cores, sockets, NUMA nodes and distances. BusAssociativity
// has the NUMA node of each PCI address, such as "0000:3b:00.0". The client's fingerprinter writes it. Speeds are in MHz.
type Topology struct {
	Nodes                  []uint8
	Distances              SLIT
	Cores                  []Core
	BusAssociativity       map[string]NUMANodeID
	OverrideTotalCompute   MHz
	OverrideWitholdCompute MHz
}
