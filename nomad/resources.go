package nomad

// Values of resources blocks.
const (
	NoneNUMA        = "none"
	PreferNUMA      = "prefer"
	RequireNUMA     = "require"
	BytesInMegabyte = 1048576
	MemoryNoLimit   = -1
)

// Core holds the fields of a core.
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

// CoreGrade holds the fields of a core grade.
type CoreGrade bool

// CoreID holds the fields of a core id.
type CoreID uint16

// Cost holds the fields of a cost.
type Cost uint8

// MHz holds the fields of a m hz.
type MHz uint64

// NUMA holds the fields of a numa.
type NUMA struct {
	Affinity string
	Devices  []string
}

// NUMANodeID holds the fields of a numa node id.
type NUMANodeID uint8

// RequestedDevice holds the fields of a requested device.
type RequestedDevice struct {
	Name        string
	Count       uint64
	Constraints Constraints
	Affinities  Affinities
}

// ResourceDevices holds the fields of a resource devices.
type ResourceDevices []*RequestedDevice

// Resources holds the fields of a resources.
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

// SLIT holds the fields of a slit.
type SLIT [][]Cost

// SocketID holds the fields of a socket id.
type SocketID uint8

// Topology holds the fields of a topology.
type Topology struct {
	Nodes                  []uint8
	Distances              SLIT
	Cores                  []Core
	BusAssociativity       map[string]NUMANodeID
	OverrideTotalCompute   MHz
	OverrideWitholdCompute MHz
}
