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

// DrainStatus is the status of a drain.
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
	// IdentitySigningKeyID is the ID of the root key that signed the node's identity.
	IdentitySigningKeyID string `json:",omitempty"`
}

// NodeListStub is the list entry of a node.
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

// NodeEvent is an event of a node.
type NodeEvent struct {
	Message     string
	Subsystem   string
	Details     map[string]string
	Timestamp   time.Time
	CreateIndex uint64
}

// DriverInfo is the state of a task driver on a node.
type DriverInfo struct {
	Attributes        map[string]string
	Detected          bool
	Healthy           bool
	HealthDescription string
	UpdateTime        time.Time
}

// DrainStrategy is the current drain of a node.
type DrainStrategy struct {
	DrainSpec
	ForceDeadline time.Time
	StartedAt     time.Time
}

// DrainSpec requests a drain. A negative deadline stops all allocations immediately. Zero
// means no deadline.
type DrainSpec struct {
	Deadline         time.Duration
	IgnoreSystemJobs bool
}

// DrainMetadata describes the last drain of a node.
type DrainMetadata struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     DrainStatus
	AccessorID string
	Meta       map[string]string
}

// NodeUpdateDrainRequest is the body of PUT /v1/node/:id/drain. A nil spec stops the drain.
type NodeUpdateDrainRequest struct {
	NodeID       string
	DrainSpec    *DrainSpec
	MarkEligible bool
	Meta         map[string]string
}

// NodeDrainUpdateResponse contains the IDs of the evaluations that a drain update created.
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

// NodeEligibilityUpdateResponse contains the IDs of the evaluations that an eligibility
// update created.
type NodeEligibilityUpdateResponse struct {
	NodeModifyIndex uint64
	EvalIDs         []string
	EvalCreateIndex uint64
	WriteMeta
}

// NodePurgeResponse contains the IDs of the evaluations that a purge created.
type NodePurgeResponse struct {
	EvalIDs         []string
	EvalCreateIndex uint64
	NodeModifyIndex uint64
}

// NodeUpdateResponse is the response of PUT /v1/node/:id/evaluate.
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

// NodeServerInfo is the address and the version of a server.
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

// NodeCpuResources is the CPU of a node: total MHz, number of cores, and reservable cores.
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

// NodeDeviceResource is a device type of a node, with its instances.
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

// NodeDeviceLocality is the PCI address of a device.
type NodeDeviceLocality struct {
	PciBusID string
}

// NodeReservedResources are the resources of a node that are not available to allocations.
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

// NodeReservedNetworkResources is a comma-separated list of reserved ports and port ranges.
type NodeReservedNetworkResources struct {
	ReservedHostPorts string
}

// Attribute is a typed value with a unit. Exactly one of the value fields is set.
type Attribute struct {
	FloatVal  *float64 `json:"Float,omitempty"`
	IntVal    *int64   `json:"Int,omitempty"`
	StringVal *string  `json:"String,omitempty"`
	BoolVal   *bool    `json:"Bool,omitempty"`
	Unit      string
}

// HostVolumeInfo is a host volume of a node.
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

// CSIInfo is the state of a CSI plugin on a node.
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

// CSIControllerInfo lists the capabilities of a CSI controller plugin.
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

// CSINodeInfo lists the capabilities of a CSI node plugin.
type CSINodeInfo struct {
	ID                      string
	MaxVolumes              int64
	AccessibleTopology      *CSITopology
	RequiresNodeStageVolume bool
	SupportsStats           bool
	SupportsExpand          bool
	SupportsCondition       bool
}

// CSITopology is a segment of the topology of a storage provider.
type CSITopology struct {
	Segments map[string]string
}

// NodeIdentityGetRequest requests the identity claims of a node.
type NodeIdentityGetRequest struct {
	NodeID string
}

// NodeIdentityGetResponse contains the claims of a node's identity.
type NodeIdentityGetResponse struct {
	Claims map[string]any
}

// NodeIdentityRenewRequest requests the renewal of a node's identity.
type NodeIdentityRenewRequest struct {
	NodeID string
}

// NodeIdentityRenewResponse is the empty response of a renewal.
type NodeIdentityRenewResponse struct{}
