package api

import "time"

// Statuses, eligibility and event subsystems of a node.
const (
	NodeStatusInit              = "initializing"
	NodeStatusReady             = "ready"
	NodeStatusDown              = "down"
	NodeStatusDisconnected      = "disconnected"
	NodeSchedulingEligible      = "eligible"
	NodeSchedulingIneligible    = "ineligible"
	NodeEventSubsystemDrain     = "Drain"
	NodeEventSubsystemDriver    = "Driver"
	NodeEventSubsystemHeartbeat = "Heartbeat"
	NodeEventSubsystemCluster   = "Cluster"
)

// DrainStatus is what became of a drain.
type DrainStatus string

// Statuses of a drain.
const (
	DrainStatusDraining DrainStatus = "draining"
	DrainStatusComplete DrainStatus = "complete"
	DrainStatusCanceled DrainStatus = "canceled"
)

// Node is a machine that runs allocations.
type Node struct {
	ID                    string
	Datacenter            string
	Name                  string
	HTTPAddr              string
	TLSEnabled            bool
	Attributes            map[string]string
	Resources             *Resources
	Reserved              *Resources
	NodeResources         *NodeResources
	ReservedResources     *NodeReservedResources
	Links                 map[string]string
	Meta                  map[string]string
	NodeClass             string
	NodePool              string
	CgroupParent          string
	Drain                 bool
	DrainStrategy         *DrainStrategy
	SchedulingEligibility string
	Status                string
	StatusDescription     string
	StatusUpdatedAt       int64
	Events                []*NodeEvent
	Drivers               map[string]*DriverInfo
	HostVolumes           map[string]*HostVolumeInfo
	GCVolumesOnNodeGC     bool
	HostNetworks          map[string]*HostNetworkInfo
	CSIControllerPlugins  map[string]*CSIInfo
	CSINodePlugins        map[string]*CSIInfo
	LastDrain             *DrainMetadata
	CreateIndex           uint64
	ModifyIndex           uint64
	NodeMaxAllocs         int
	// IdentitySigningKeyID is the root key that signed the node's identity.
	IdentitySigningKeyID string `json:",omitempty"`
}

// NodeListStub is a node in a list.
type NodeListStub struct {
	Address               string
	ID                    string
	Attributes            map[string]string `json:",omitempty"`
	Datacenter            string
	Name                  string
	NodeClass             string
	NodePool              string
	Version               string
	Drain                 bool
	SchedulingEligibility string
	Status                string
	StatusDescription     string
	Drivers               map[string]*DriverInfo
	NodeResources         *NodeResources         `json:",omitempty"`
	ReservedResources     *NodeReservedResources `json:",omitempty"`
	LastDrain             *DrainMetadata
	CreateIndex           uint64
	ModifyIndex           uint64
}

// NodeEvent is something that happened to a node.
type NodeEvent struct {
	Message     string
	Subsystem   string
	Details     map[string]string
	Timestamp   time.Time
	CreateIndex uint64
}

// DriverInfo is what a node says about one of its task drivers.
type DriverInfo struct {
	Attributes        map[string]string
	Detected          bool
	Healthy           bool
	HealthDescription string
	UpdateTime        time.Time
}

// DrainStrategy is a drain that runs on a node.
type DrainStrategy struct {
	DrainSpec
	ForceDeadline time.Time
	StartedAt     time.Time
}

// DrainSpec asks for a drain. A negative deadline stops all allocations at once,
// zero waits for ever.
type DrainSpec struct {
	Deadline         time.Duration
	IgnoreSystemJobs bool
}

// DrainMetadata is what became of the last drain of a node.
type DrainMetadata struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     DrainStatus
	AccessorID string
	Meta       map[string]string
}

// DrainOptions are the choices of Nodes.UpdateDrainOpts.
type DrainOptions struct {
	DrainSpec    *DrainSpec
	MarkEligible bool
	Meta         map[string]string
}

// NodeUpdateDrainRequest is the body of PUT /v1/node/:id/drain. Without a spec the drain ends.
type NodeUpdateDrainRequest struct {
	NodeID       string
	DrainSpec    *DrainSpec
	MarkEligible bool
	Meta         map[string]string
}

// NodeDrainUpdateResponse tells which evaluations a change of a drain made.
type NodeDrainUpdateResponse struct {
	NodeModifyIndex uint64
	EvalIDs         []string
	EvalCreateIndex uint64
	WriteMeta
}

// NodeUpdateEligibilityRequest is the body of PUT /v1/node/:id/eligibility.
type NodeUpdateEligibilityRequest struct {
	NodeID      string
	Eligibility string
}

// NodeEligibilityUpdateResponse tells which evaluations a change of eligibility made.
type NodeEligibilityUpdateResponse struct {
	NodeModifyIndex uint64
	EvalIDs         []string
	EvalCreateIndex uint64
	WriteMeta
}

// NodePurgeResponse tells which evaluations removing a node made.
type NodePurgeResponse struct {
	EvalIDs         []string
	EvalCreateIndex uint64
	NodeModifyIndex uint64
}

// NodeUpdateResponse is the reply of PUT /v1/node/:id/evaluate.
type NodeUpdateResponse struct {
	HeartbeatTTL          time.Duration
	EvalIDs               []string
	EvalCreateIndex       uint64
	NodeModifyIndex       uint64
	Features              uint64
	LeaderRPCAddr         string
	NumNodes              int32
	Servers               []*NodeServerInfo
	SchedulingEligibility string
	SignedIdentity        *string
	QueryMeta
}

// NodeServerInfo is a server as nodes see it.
type NodeServerInfo struct {
	RPCAdvertiseAddr string
	RPCMajorVersion  int32
	RPCMinorVersion  int32
	Datacenter       string
}

// NodeResources are the resources of a node.
type NodeResources struct {
	Cpu            NodeCpuResources
	Memory         NodeMemoryResources
	Disk           NodeDiskResources
	Networks       []*NetworkResource
	Devices        []*NodeDeviceResource
	MinDynamicPort int
	MaxDynamicPort int
}

// NodeCpuResources is the CPU of a node: MHz in all, cores, and which cores may be reserved.
type NodeCpuResources struct {
	CpuShares          int64
	TotalCpuCores      uint16
	ReservableCpuCores []uint16
}

// NodeMemoryResources is the memory of a node in MiB.
type NodeMemoryResources struct {
	MemoryMB int64
}

// NodeDiskResources is the disk of a node in MiB.
type NodeDiskResources struct {
	DiskMB int64
}

// NodeDeviceResource is a kind of device that a node has.
type NodeDeviceResource struct {
	Vendor     string
	Type       string
	Name       string
	Instances  []*NodeDevice
	Attributes map[string]*Attribute
}

// NodeDevice is one device instance of a node.
type NodeDevice struct {
	ID                string
	Healthy           bool
	HealthDescription string
	Locality          *NodeDeviceLocality
}

// NodeDeviceLocality tells where on its machine a device is.
type NodeDeviceLocality struct {
	PciBusID string
}

// NodeReservedResources are the resources of a node that allocations do not get.
type NodeReservedResources struct {
	Cpu      NodeReservedCpuResources
	Memory   NodeReservedMemoryResources
	Disk     NodeReservedDiskResources
	Networks NodeReservedNetworkResources
}

// NodeReservedCpuResources is reserved CPU in MHz.
type NodeReservedCpuResources struct {
	CpuShares uint64
}

// NodeReservedMemoryResources is reserved memory in MiB.
type NodeReservedMemoryResources struct {
	MemoryMB uint64
}

// NodeReservedDiskResources is reserved disk in MiB.
type NodeReservedDiskResources struct {
	DiskMB uint64
}

// NodeReservedNetworkResources lists reserved ports, as numbers and ranges separated
// by commas.
type NodeReservedNetworkResources struct {
	ReservedHostPorts string
}

// Attribute is a typed value with a unit; the field that is set is its type.
type Attribute struct {
	FloatVal  *float64 `json:"Float,omitempty"`
	IntVal    *int64   `json:"Int,omitempty"`
	StringVal *string  `json:"String,omitempty"`
	BoolVal   *bool    `json:"Bool,omitempty"`
	Unit      string
}

// HostVolumeInfo is a directory of a node that jobs may mount.
type HostVolumeInfo struct {
	Path     string
	ReadOnly bool
	ID       string
}

// HostNetworkInfo is a named network of a node.
type HostNetworkInfo struct {
	Name          string
	CIDR          string
	Interface     string
	ReservedPorts string
}

// CSIInfo is what a node says about a CSI plugin.
type CSIInfo struct {
	PluginID                 string
	AllocID                  string
	Healthy                  bool
	HealthDescription        string
	UpdateTime               time.Time
	RequiresControllerPlugin bool
	RequiresTopologies       bool
	ControllerInfo           *CSIControllerInfo `json:",omitempty"`
	NodeInfo                 *CSINodeInfo       `json:",omitempty"`
}

// CSIControllerInfo lists what a CSI controller plugin can do.
type CSIControllerInfo struct {
	SupportsCreateDelete             bool
	SupportsAttachDetach             bool
	SupportsListVolumes              bool
	SupportsGetCapacity              bool
	SupportsCreateDeleteSnapshot     bool
	SupportsListSnapshots            bool
	SupportsClone                    bool
	SupportsReadOnlyAttach           bool
	SupportsExpand                   bool
	SupportsListVolumesAttachedNodes bool
	SupportsCondition                bool
	SupportsGet                      bool
}

// CSINodeInfo lists what a CSI node plugin can do.
type CSINodeInfo struct {
	ID                      string
	MaxVolumes              int64
	AccessibleTopology      *CSITopology
	RequiresNodeStageVolume bool
	SupportsStats           bool
	SupportsExpand          bool
	SupportsCondition       bool
}

// CSITopology is a place in the topology of a storage provider.
type CSITopology struct {
	Segments map[string]string
}

// NodeIdentityGetRequest asks a node for the claims of its identity.
type NodeIdentityGetRequest struct {
	NodeID string
}

// NodeIdentityGetResponse holds the claims of a node's identity.
type NodeIdentityGetResponse struct {
	Claims map[string]any
}

// NodeIdentityRenewRequest asks a node to renew its identity.
type NodeIdentityRenewRequest struct {
	NodeID string
}
