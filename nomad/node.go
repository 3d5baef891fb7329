package nomad

import "time"

// The statuses of a node.
const (
	NodeStatusInit         = "initializing"
	NodeStatusReady        = "ready"
	NodeStatusDown         = "down"
	NodeStatusDisconnected = "disconnected"
)

// The scheduling eligibility of a node.
const (
	NodeSchedulingEligible   = "eligible"
	NodeSchedulingIneligible = "ineligible"
)

// The statuses of a drain.
const (
	DrainStatusDraining DrainStatus = "draining"
	DrainStatusComplete DrainStatus = "complete"
	DrainStatusCanceled DrainStatus = "canceled"
)

// NodeUniqueNamespace is the prefix of attribute names whose values differ on every node. These attributes are not
// part of the computed class.
const NodeUniqueNamespace = "unique."

// NodeTicketAttribute marks nodes whose agent accepts tickets in place of callers' tokens (nomad/ticket). Its value
// is the version of the ticket format.
const (
	NodeTicketAttribute = "nomad.tickets"
	NodeTicketVersion   = "1"
)

// NodeSpiffeAttribute marks nodes whose agent serves the SPIFFE Workload API to tasks.
const (
	NodeSpiffeAttribute = "nomad.spiffe"
	NodeSpiffeVersion   = "1"
)

// MaxRetainedNodeEvents is the maximum number of events that are kept per node.
const MaxRetainedNodeEvents = 10

// Subsystems of node events.
const (
	NodeEventSubsystemDrain     = "Drain"
	NodeEventSubsystemDriver    = "Driver"
	NodeEventSubsystemHeartbeat = "Heartbeat"
	NodeEventSubsystemCluster   = "Cluster"
	NodeEventSubsystemCSI       = "CSI"
	NodeEventSubsystemScheduler = "Scheduler"
	NodeEventSubsystemStorage   = "Storage"
)

// DrainMetadata records who requested the last drain of a node, and its status.
type DrainMetadata struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     DrainStatus
	AccessorID string
	Meta       map[string]string
}

// DrainSpec specifies a drain. A negative deadline stops all allocations immediately. Zero means no deadline.
type DrainSpec struct {
	Deadline         time.Duration
	IgnoreSystemJobs bool
}

// DrainStatus is draining, complete or canceled.
type DrainStatus string

// DrainStrategy is an active drain. At ForceDeadline, the remaining allocations are stopped.
type DrainStrategy struct {
	DrainSpec
	ForceDeadline time.Time
	StartedAt     time.Time
}

// DrainUpdate is a change of one node's drain.
type DrainUpdate struct {
	DrainStrategy *DrainStrategy
	MarkEligible  bool
}

// DriverInfo describes a task driver of a node. The client's fingerprinters write it.
type DriverInfo struct {
	Attributes        map[string]string
	Detected          bool
	Healthy           bool
	HealthDescription string
	UpdateTime        time.Time
}

// LegacyNodeCpuResources is the CPU of a node in the form for older clients: the total MHz and the cores. It is
// derived from Processors.
type LegacyNodeCpuResources struct {
	CpuShares          int64
	TotalCpuCores      uint16
	ReservableCpuCores []uint16
}

// Node is a machine that runs allocations. The client writes its properties and resources. The servers write Status,
// eligibility, drain, events and the indexes. SecretID authenticates the client and never leaves the servers.
// StatusUpdatedAt is in Unix seconds.
type Node struct {
	ID                       string
	SecretID                 string
	Datacenter               string
	Name                     string
	CgroupParent             string
	HTTPAddr                 string
	TLSEnabled               bool
	Attributes               map[string]string
	NodeResources            *NodeResources
	ReservedResources        *NodeReservedResources
	Links                    map[string]string
	Meta                     map[string]string
	NodeClass                string
	NodePool                 string
	ComputedClass            string
	DrainStrategy            *DrainStrategy
	SchedulingEligibility    string
	Status                   string
	StatusDescription        string
	IdentitySigningKeyID     string
	StatusUpdatedAt          int64
	Events                   []*NodeEvent
	Drivers                  map[string]*DriverInfo
	CSIControllerPlugins     map[string]*CSIInfo
	CSINodePlugins           map[string]*CSIInfo
	HostVolumes              map[string]*ClientHostVolumeConfig
	GCVolumesOnNodeGC        bool
	HostNetworks             map[string]*ClientHostNetworkConfig
	LastDrain                *DrainMetadata
	NodeMaxAllocs            int
	LastMissedHeartbeatIndex uint64
	LastAllocUpdateIndex     uint64
	CreateIndex              uint64
	ModifyIndex              uint64
	// Session is the agent process that acts for the node. It is nil if the agent does not send one.
	Session *NodeSession `codec:",omitempty" json:"-" http:"-" bexpr:"-"`
	// IdentitiesSince is the time of the node's latest readmission, in Unix seconds. Identities
	// issued earlier are rejected. Zero rejects none.
	IdentitiesSince int64 `codec:",omitempty" json:"-" http:"-" bexpr:"-"`
	// Key is the Ed25519 public key to which the node is bound: registrations must be signed with it. Nodes of other
	// projects have none.
	Key []byte `codec:",omitempty" json:"-" http:"-" bexpr:"-"`
	// HadConsul means that an earlier registration of the node had an agent of Consul: see nomad/consul.
	HadConsul bool `codec:",omitempty" json:"-" http:"-" bexpr:"-"`
}

// SameAdmission reports whether o has the same pool, datacenter and name as n. An introduction admits exactly these.
func (n *Node) SameAdmission(o *Node) bool {
	return n.NodePool == o.NodePool && n.Datacenter == o.Datacenter && n.Name == o.Name
}

// NodeDevice is one device instance of a node.
type NodeDevice struct {
	ID                string
	Healthy           bool
	HealthDescription string
	Locality          *NodeDeviceLocality
}

// NodeDeviceLocality is the location of a device on its machine.
type NodeDeviceLocality struct {
	PciBusID string
}

// NodeDeviceResource is a type of device on a node, with its instances.
type NodeDeviceResource struct {
	Vendor     string
	Type       string
	Name       string
	Instances  []*NodeDevice
	Attributes map[string]*Attribute
}

// NodeDiskResources is the disk of a node in MiB.
type NodeDiskResources struct {
	DiskMB int64
}

// NodeEvent is an event in the life of a node. Servers keep the newest ten.
type NodeEvent struct {
	Message     string
	Subsystem   string
	Details     map[string]string
	Timestamp   time.Time
	CreateIndex uint64
}

// NodeListStub is a node in a list.
type NodeListStub struct {
	Address               string
	ID                    string
	Attributes            map[string]string
	Datacenter            string
	Name                  string
	NodePool              string
	NodeClass             string
	Version               string
	Drain                 bool
	SchedulingEligibility string
	Status                string
	StatusDescription     string
	Drivers               map[string]*DriverInfo
	HostVolumes           map[string]*ClientHostVolumeConfig
	NodeResources         *NodeResources
	ReservedResources     *NodeReservedResources
	LastDrain             *DrainMetadata
	CreateIndex           uint64
	ModifyIndex           uint64
	Use                   *NodeUse          `json:",omitempty" codec:",omitempty"` // open-nomad only
	Meta                  map[string]string `json:",omitempty" codec:",omitempty"` // open-nomad only

	source nodeSource // of a stub that was made in this process
}

// NodeUse is the number of live allocations of a node and the sum of their resources (open-nomad only).
type NodeUse struct {
	Allocations int
	CPU         int64 // MHz
	MemoryMB    int64
	DiskMB      int64
}

// NodeMemoryResources is the memory of a node in MiB.
type NodeMemoryResources struct {
	MemoryMB int64
}

// NodeProcessorResources is the CPU of a node with details for each core.
type NodeProcessorResources struct {
	Topology *Topology
}

// NodeRegistration records whether this client ever registered. The client stores it in its state database.
type NodeRegistration struct {
	HasRegistered bool
}

// NodeReservedCpuResources is the CPU that is not available to allocations: MHz and cores.
type NodeReservedCpuResources struct {
	CpuShares        int64
	ReservedCpuCores []uint16
}

// NodeReservedDiskResources is the disk space that is not available to allocations, in MiB.
type NodeReservedDiskResources struct {
	DiskMB int64
}

// NodeReservedMemoryResources is the memory that is not available to allocations, in MiB.
type NodeReservedMemoryResources struct {
	MemoryMB int64
}

// NodeReservedNetworkResources lists the ports that are not available to allocations, as ports and ranges separated
// by commas.
type NodeReservedNetworkResources struct {
	ReservedHostPorts string
}

// NodeReservedResources are the resources of a node that are not available to allocations, as configured on the
// client.
type NodeReservedResources struct {
	Cpu      NodeReservedCpuResources
	Memory   NodeReservedMemoryResources
	Disk     NodeReservedDiskResources
	Networks NodeReservedNetworkResources
}

// NodeResources are the resources of a node. The client's fingerprinters write them. Dynamic ports are selected from
// MinDynamicPort to MaxDynamicPort.
type NodeResources struct {
	Cpu            LegacyNodeCpuResources
	Processors     NodeProcessorResources
	Memory         NodeMemoryResources
	Disk           NodeDiskResources
	Devices        []*NodeDeviceResource
	NodeNetworks   []*NodeNetworkResource
	Networks       Networks
	MinDynamicPort int
	MaxDynamicPort int
}

// NodeScoreMeta is the score of one node for a placement: the score of each scorer and the normalized total.
type NodeScoreMeta struct {
	NodeID    string
	Scores    map[string]float64
	NormScore float64
}

// NodeServerInfo is a server as clients see it: its address and protocol version.
type NodeServerInfo struct {
	RPCAdvertiseAddr string
	RPCMajorVersion  int32
	RPCMinorVersion  int32
	Datacenter       string
}

// NodeStubFields selects the optional fields of a node list.
type NodeStubFields struct {
	Resources bool
	OS        bool
	Use       bool `codec:",omitempty"` // open-nomad only
	Meta      bool `codec:",omitempty"` // open-nomad only
}
