package nomad

import "time"

// What allocation metrics keep.
const (
	MaxRetainedNodeScores = 5
	NormScorerName        = "normalized-score"
)

// The field that an AllocState records.
const (
	AllocStateFieldClientStatus AllocStateField = 0
)

// The desired and client statuses of an allocation (compat/task-runtime.tsv).
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

// AllocListRequest is the request of Alloc.List.
type AllocListRequest struct {
	QueryOptions
	Fields *AllocStubFields
}

// AllocListResponse is the reply of Alloc.List and Deployment.Allocations.
type AllocListResponse struct {
	Allocations []*AllocListStub
	QueryMeta
}

// AllocListStub holds the fields of an alloc list stub.
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
}

// AllocMetric holds the fields of an alloc metric.
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

// AllocRestartRequest is the request of ClientAllocations.Restart and Allocations.Restart.
type AllocRestartRequest struct {
	AllocID  string
	TaskName string
	AllTasks bool
	QueryOptions
}

// AllocSignalRequest is the request of ClientAllocations.Signal and Allocations.Signal.
type AllocSignalRequest struct {
	AllocID string
	Task    string
	Signal  string
	QueryOptions
}

// AllocSpecificRequest is the request of Alloc.GetAlloc, ClientAllocations.GarbageCollect and Allocations.GarbageCollect.
type AllocSpecificRequest struct {
	AllocID string
	QueryOptions
}

// AllocState holds the fields of an alloc state.
type AllocState struct {
	Field AllocStateField
	Value string
	Time  time.Time
}

// AllocStateField holds the fields of an alloc state field.
type AllocStateField uint8

// AllocStopRequest is the request of Alloc.Stop.
type AllocStopRequest struct {
	AllocID         string
	NoShutdownDelay bool
	Reschedule      bool
	WriteRequest
}

// AllocStopResponse is the reply of Alloc.Stop.
type AllocStopResponse struct {
	EvalID string
	WriteMeta
}

// AllocStubFields holds the fields of an alloc stub fields.
type AllocStubFields struct {
	Resources  bool
	TaskStates bool
}

// AllocUpdateDesiredTransitionRequest is the request of Alloc.UpdateDesiredTransition.
type AllocUpdateDesiredTransitionRequest struct {
	Allocs map[string]*DesiredTransition
	Evals  []*Evaluation
	WriteRequest
}

// AllocUpdateRequest is the request of Node.UpdateAlloc.
type AllocUpdateRequest struct {
	Alloc []*Allocation
	Evals []*Evaluation
	WriteRequest
}

// AllocatedCpuResources holds the fields of an allocated cpu resources.
type AllocatedCpuResources struct {
	CpuShares     int64
	ReservedCores []uint16
}

// AllocatedDeviceResource holds the fields of an allocated device resource.
type AllocatedDeviceResource struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// AllocatedMemoryResources holds the fields of an allocated memory resources.
type AllocatedMemoryResources struct {
	MemoryMB    int64
	MemoryMaxMB int64
}

// AllocatedPortMapping holds the fields of an allocated port mapping.
type AllocatedPortMapping struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct         bool `codec:",omitempty"`
	Label           string
	Value           int
	To              int
	HostIP          string
	IgnoreCollision bool
}

// AllocatedPorts holds the fields of an allocated ports.
type AllocatedPorts []AllocatedPortMapping

// AllocatedResources holds the fields of an allocated resources.
type AllocatedResources struct {
	Tasks          map[string]*AllocatedTaskResources
	TaskLifecycles map[string]*TaskLifecycleConfig
	Shared         AllocatedSharedResources
}

// AllocatedSharedResources holds the fields of an allocated shared resources.
type AllocatedSharedResources struct {
	Networks Networks
	DiskMB   int64
	Ports    AllocatedPorts
}

// AllocatedTaskResources holds the fields of an allocated task resources.
type AllocatedTaskResources struct {
	Cpu      AllocatedCpuResources
	Memory   AllocatedMemoryResources
	Networks Networks
	Devices  []*AllocatedDeviceResource
}

// Allocation holds the fields of an allocation.
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
	CreateIndex           uint64
	ModifyIndex           uint64
	AllocModifyIndex      uint64
	CreateTime            int64
	ModifyTime            int64
}

// AllocationDiff holds the fields of an allocation diff.
type AllocationDiff Allocation

// AllocsGetRequest is the request of Alloc.GetAllocs.
type AllocsGetRequest struct {
	AllocIDs []string
	QueryOptions
}

// AllocsGetResponse is the reply of Alloc.GetAllocs.
type AllocsGetResponse struct {
	Allocs           []*Allocation
	SignedIdentities []SignedWorkloadIdentity
	QueryMeta
}

// DesiredTransition holds the fields of a desired transition.
type DesiredTransition struct {
	Migrate                 *bool
	Reschedule              *bool
	ForceReschedule         *bool
	NoShutdownDelay         *bool
	MigrateDisablePlacement *bool
}

// DesiredUpdates holds the fields of a desired updates.
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

// RescheduleEvent holds the fields of a reschedule event.
type RescheduleEvent struct {
	RescheduleTime int64
	PrevAllocID    string
	PrevNodeID     string
	Delay          time.Duration
}

// RescheduleTracker holds the fields of a reschedule tracker.
type RescheduleTracker struct {
	Events         []*RescheduleEvent
	LastReschedule RescheduleTrackerAnnotation
}

// RescheduleTrackerAnnotation holds the fields of a reschedule tracker annotation.
type RescheduleTrackerAnnotation string

// SingleAllocResponse is the reply of Alloc.GetAlloc.
type SingleAllocResponse struct {
	Alloc *Allocation
	QueryMeta
}
