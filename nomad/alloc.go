package nomad

import "time"

// MaxRetainedNodeScores is the number of best nodes whose scores an AllocMetric keeps.
const MaxRetainedNodeScores = 5

// The desired and client statuses of an allocation, as in Nomad 2.0.
const (
	AllocDesiredStatusRun     = "run"
	AllocDesiredStatusStop    = "stop"
	AllocDesiredStatusEvict   = "evict"
	AllocClientStatusPending  = "pending"
	AllocClientStatusRunning  = "running"
	AllocClientStatusComplete = "complete"
	AllocClientStatusFailed   = "failed"
	AllocClientStatusLost     = "lost"
	AllocClientStatusUnknown  = "unknown"
)

// AllocListStub is the short form of an Allocation in a list. Servers derive it for each reply.
type AllocListStub struct {
	ID                    string
	EvalID                string
	Name                  string
	Namespace             string
	NodeID                string
	NodeName              string
	JobID                 string
	JobType               string
	JobVersion            uint64
	TaskGroup             string
	AllocatedResources    *AllocatedResources
	DesiredStatus         string
	DesiredDescription    string
	ClientStatus          string
	ClientDescription     string
	DesiredTransition     DesiredTransition
	TaskStates            map[string]*TaskState
	DeploymentStatus      *AllocDeploymentStatus
	FollowupEvalID        string
	NextAllocation        string
	RescheduleTracker     *RescheduleTracker
	PreemptedAllocations  []string
	PreemptedByAllocation string
	CreateIndex           uint64
	ModifyIndex           uint64
	CreateTime            int64
	ModifyTime            int64

	source allocSource // of a stub that was made in this process
}

// AllocMetric describes how the scheduler found a node. If it found none, it lists which nodes failed
// which check. The scheduler writes it. AllocationTime is in nanoseconds.
type AllocMetric struct {
	NodesEvaluated     int
	NodesFiltered      int
	NodesInPool        int
	NodePool           string
	NodesAvailable     map[string]int
	ClassFiltered      map[string]int
	ConstraintFiltered map[string]int
	NodesExhausted     int
	ClassExhausted     map[string]int
	DimensionExhausted map[string]int
	QuotaExhausted     []string
	ResourcesExhausted map[string]*Resources
	Scores             map[string]float64
	ScoreMetaData      []*NodeScoreMeta
	AllocationTime     time.Duration
	CoalescedFailures  int
}

// AllocState is one change of an allocation's client status that scheduling depends on, such as the loss
// and the return of its client. The plan applier and the FSM append to the list. Nothing is ever removed.
type AllocState struct {
	Field AllocStateField
	Value string
	Time  time.Time
}

// AllocStateField names what an AllocState records.
type AllocStateField uint8

// AllocStubFields selects the optional fields of an allocation list.
type AllocStubFields struct {
	Resources  bool
	TaskStates bool
}

// AllocatedCpuResources is the CPU of one task: shares in MHz, and the cores reserved for this task.
// The scheduler writes it.
type AllocatedCpuResources struct {
	CpuShares     int64
	ReservedCores []uint16
}

// AllocatedDeviceResource lists the device instances of one task. The scheduler writes it.
type AllocatedDeviceResource struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// AllocatedMemoryResources is the memory of one task in MiB. MemoryMB is reserved. MemoryMaxMB is the
// limit: 0 means MemoryMB, -1 means no limit. The scheduler writes it.
type AllocatedMemoryResources struct {
	MemoryMB    int64
	MemoryMaxMB int64
}

// AllocatedPortMapping is one port of an allocation. Value is the port on the host, at HostIP. To is the
// port in the network namespace. The scheduler writes it.
type AllocatedPortMapping struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct         bool `codec:",omitempty"`
	Label           string
	Value           int
	To              int
	HostIP          string
	IgnoreCollision bool
}

// AllocatedPorts lists the ports of an allocation by label.
type AllocatedPorts []AllocatedPortMapping

// AllocatedResources are the resources that an allocation occupies on its node. The scheduler writes them
// when it places the allocation. In-place updates may change them.
type AllocatedResources struct {
	Tasks          map[string]*AllocatedTaskResources
	TaskLifecycles map[string]*TaskLifecycleConfig
	Shared         AllocatedSharedResources
}

// AllocatedSharedResources are the resources that the tasks of an allocation share: disk in MiB, networks
// and ports.
type AllocatedSharedResources struct {
	Networks Networks
	DiskMB   int64
	Ports    AllocatedPorts
}

// AllocatedTaskResources are the resources of one task of an allocation.
type AllocatedTaskResources struct {
	Cpu      AllocatedCpuResources
	Memory   AllocatedMemoryResources
	Networks Networks
	Devices  []*AllocatedDeviceResource
}

// Allocation is one instance of a task group, placed on a node. The scheduler creates it, and the plan applier
// adds identities. The client writes TaskStates, ClientStatus and NetworkStatus. The FSM maintains the other
// fields. Times are Unix nanoseconds.
type Allocation struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct               bool `codec:",omitempty"`
	ID                    string
	Namespace             string
	EvalID                string
	Name                  string
	NodeID                string
	NodeName              string
	JobID                 string
	Job                   *Job
	TaskGroup             string
	Resources             *Resources
	SharedResources       *Resources
	TaskResources         map[string]*Resources
	AllocatedResources    *AllocatedResources
	Metrics               *AllocMetric
	DesiredStatus         string
	DesiredDescription    string
	DesiredTransition     DesiredTransition
	ClientStatus          string
	ClientDescription     string
	TaskStates            map[string]*TaskState
	AllocStates           []*AllocState
	PreviousAllocation    string
	NextAllocation        string
	DeploymentID          string
	DeploymentStatus      *AllocDeploymentStatus
	RescheduleTracker     *RescheduleTracker
	NetworkStatus         *AllocNetworkStatus
	FollowupEvalID        string
	PreemptedAllocations  []string
	PreemptedByAllocation string
	SignedIdentities      map[string]string
	SigningKeyID          string
	// Isolation holds the isolation level by task below which the client must not start it
	// (open-nomad only). The plan applier sets it; it is also the claim nomad_isolation of the tokens.
	Isolation        map[string]string `json:",omitempty"`
	CreateIndex      uint64
	ModifyIndex      uint64
	AllocModifyIndex uint64
	CreateTime       int64
	ModifyTime       int64
}

// AllocationDiff is an allocation in a plan that holds only the changed fields.
type AllocationDiff Allocation

// DesiredTransition is a transition that the servers request for an allocation. A nil field requests nothing.
// The drainer, the API and the deployment watcher write it. The scheduler acts on it.
type DesiredTransition struct {
	Migrate                 *bool
	Reschedule              *bool
	ForceReschedule         *bool
	NoShutdownDelay         *bool
	MigrateDisablePlacement *bool
	// TargetNode is the node on which the replacement of a migrating allocation is placed if it fits there, or ""
	// (open-nomad only).
	TargetNode string `codec:",omitempty" json:",omitempty"`
}

// DesiredUpdates counts the changes of a plan to one group, by kind. The scheduler writes it for job plan and
// for evaluations.
type DesiredUpdates struct {
	Ignore            uint64
	Place             uint64
	Migrate           uint64
	Stop              uint64
	InPlaceUpdate     uint64
	DestructiveUpdate uint64
	Canary            uint64
	Preemptions       uint64
	Disconnect        uint64
	Reconnect         uint64
	RescheduleNow     uint64
	RescheduleLater   uint64
}

// RescheduleEvent records one replaced allocation. RescheduleTime is in Unix nanoseconds. Delay is the wait
// before the replacement.
type RescheduleEvent struct {
	RescheduleTime int64
	PrevAllocID    string
	PrevNodeID     string
	Delay          time.Duration
}

// RescheduleTracker lists the allocations that an allocation replaces. The scheduler writes it, and uses it to
// enforce the limits of the reschedule block.
type RescheduleTracker struct {
	Events         []*RescheduleEvent
	LastReschedule RescheduleTrackerAnnotation
}

// RescheduleTrackerAnnotation is the outcome of the last reschedule attempt.
type RescheduleTrackerAnnotation string
