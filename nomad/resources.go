package nomad

// Values of resources blocks.
const (
	NoneNUMA        = "none"
	PreferNUMA      = "prefer"
	RequireNUMA     = "require"
	BytesInMegabyte = 1 << 20
	MemoryNoLimit   = -1
)

// Core is one core of a node; speeds are in MHz. Disable means that allocations do
// not get it.
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

// CoreGrade reports whether a core is built for performance (true) or efficiency
// (false).
type CoreGrade bool

// CoreID numbers a core as the kernel does.
type CoreID uint16

// Cost is the distance between two memory nodes as the kernel tells it; 10 is the
// own one.
type Cost uint8

// MHz is a processor speed.
type MHz uint64

// NUMA reports whether the cores of a task must share a memory node.
type NUMA struct {
	Affinity string
	Devices  []string
}

// NUMANodeID numbers a memory node as the kernel does.
type NUMANodeID uint8

// RequestedDevice asks for Count instances of a device such as a GPU, by
// vendor/type/name or parts of it.
type RequestedDevice struct {
	Name        string
	Count       uint64
	Constraints Constraints
	Affinities  Affinities
}

// ResourceDevices are the devices that a task asks for.
type ResourceDevices []*RequestedDevice

// Resources is what a task asks for: CPU in MHz or whole cores, memory, disk and
// secrets in MiB.
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

// SLIT is the table of distances between memory nodes.
type SLIT [][]Cost

// SocketID numbers a processor socket as the kernel does.
type SocketID uint8

// Topology is where the cores of a node are: sockets, memory nodes, distances. The
// client's fingerprint writes it; speeds are in MHz.
type Topology struct {
	Nodes                  []uint8
	Distances              SLIT
	Cores                  []Core
	BusAssociativity       map[string]NUMANodeID
	OverrideTotalCompute   MHz
	OverrideWitholdCompute MHz
}
