package api

import (
	"time"

	"github.com/open-nomad/open-nomad/api/workload"
)

// Desired and client statuses of an allocation.
const (
	AllocDesiredStatusRun          = "run"
	AllocDesiredStatusStop         = "stop"
	AllocDesiredStatusEvict        = "evict"
	AllocClientStatusPending       = "pending"
	AllocClientStatusRunning       = "running"
	AllocClientStatusComplete      = "complete"
	AllocClientStatusFailed        = "failed"
	AllocClientStatusLost          = "lost"
	AllocClientStatusUnknown       = "unknown"
	AllocRestartReasonWithinPolicy = "Restart within policy"
)

// Types of task events.
const (
	TaskSetup                  = "Task Setup"
	TaskSetupFailure           = "Setup Failure"
	TaskDriverFailure          = "Driver Failure"
	TaskDriverMessage          = "Driver"
	TaskReceived               = "Received"
	TaskFailedValidation       = "Failed Validation"
	TaskStarted                = "Started"
	TaskTerminated             = "Terminated"
	TaskKilling                = "Killing"
	TaskKilled                 = "Killed"
	TaskRestarting             = "Restarting"
	TaskNotRestarting          = "Not Restarting"
	TaskDownloadingArtifacts   = "Downloading Artifacts"
	TaskArtifactDownloadFailed = "Failed Artifact Download"
	TaskSiblingFailed          = "Sibling Task Failed"
	TaskSignaling              = "Signaling"
	TaskRestartSignal          = "Restart Signaled"
	TaskLeaderDead             = "Leader Task Dead"
	TaskBuildingTaskDir        = "Building Task Directory"
	TaskClientReconnected      = "Reconnected"

	// Only in open-nomad.
	TaskSandboxDenial   = "Sandbox Denial"
	TaskSandboxMismatch = "Sandbox Mismatch"
	TaskLogs            = "Task Logs"
)

// Allocation is a group of a job placed on a node.
type Allocation struct {
	ID                    string
	Namespace             string
	EvalID                string
	Name                  string
	NodeID                string
	NodeName              string
	JobID                 string
	Job                   *workload.Job
	TaskGroup             string
	Resources             *workload.Resources
	TaskResources         map[string]*workload.Resources
	AllocatedResources    *AllocatedResources
	Services              map[string]string
	Metrics               *AllocationMetric
	DesiredStatus         string
	DesiredDescription    string
	DesiredTransition     DesiredTransition
	ClientStatus          string
	ClientDescription     string
	TaskStates            map[string]*TaskState
	DeploymentID          string
	DeploymentStatus      *AllocDeploymentStatus
	FollowupEvalID        string
	PreviousAllocation    string
	NextAllocation        string
	RescheduleTracker     *RescheduleTracker
	NetworkStatus         *AllocNetworkStatus
	PreemptedAllocations  []string
	PreemptedByAllocation string
	CreateIndex           uint64
	ModifyIndex           uint64
	AllocModifyIndex      uint64
	CreateTime            int64
	ModifyTime            int64
}

// AllocationListStub is the list entry of an allocation.
type AllocationListStub struct {
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
	AllocatedResources    *AllocatedResources `json:",omitempty"`
	DesiredStatus         string
	DesiredDescription    string
	ClientStatus          string
	ClientDescription     string
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

// AllocationMetric is the metrics of a placement: evaluated, filtered and exhausted nodes,
// and scores.
type AllocationMetric struct {
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
	ResourcesExhausted map[string]*workload.Resources
	Scores             map[string]float64
	AllocationTime     time.Duration
	CoalescedFailures  int
	ScoreMetaData      []*NodeScoreMeta
}

// NodeScoreMeta is the score of one node for a placement.
type NodeScoreMeta struct {
	NodeID    string
	Scores    map[string]float64
	NormScore float64
}

// AllocDeploymentStatus is the health of an allocation in its deployment. Healthy is nil
// until the health is determined.
type AllocDeploymentStatus struct {
	Healthy     *bool
	Timestamp   time.Time
	Canary      bool
	ModifyIndex uint64
}

// AllocNetworkStatus is the network of an allocation on its node.
type AllocNetworkStatus struct {
	InterfaceName string
	Address       string
	AddressIPv6   string
	DNS           *workload.DNSConfig
}

// AllocStopResponse contains the ID of the evaluation that the stop created.
type AllocStopResponse struct {
	EvalID string
	WriteMeta
}

// AllocSignalRequest is the body of PUT /v1/client/allocation/:id/signal. An empty task
// means all tasks.
type AllocSignalRequest struct {
	Task   string
	Signal string
}

// AllocationRestartRequest is the body of PUT /v1/client/allocation/:id/restart.
type AllocationRestartRequest struct {
	TaskName string
	AllTasks bool
}

// DesiredTransition is the transition of an allocation that the servers requested.
type DesiredTransition struct {
	Migrate                 *bool
	Reschedule              *bool
	ForceReschedule         *bool
	NoShutdownDelay         *bool
	MigrateDisablePlacement *bool
	// TargetNode is the node that a move requested for the replacement (open-nomad only).
	TargetNode string `json:",omitempty"`
}

// AllocMoveRequest is the body of PUT /v1/allocation/:alloc_id/move. It is open-nomad only.
type AllocMoveRequest struct {
	NodeID string
}

// RescheduleTracker lists the allocations that an allocation replaced.
type RescheduleTracker struct {
	Events         []*RescheduleEvent
	LastReschedule string
}

// RescheduleEvent is one replaced allocation. RescheduleTime is in Unix nanoseconds.
type RescheduleEvent struct {
	RescheduleTime int64
	PrevAllocID    string
	PrevNodeID     string
}

// TaskState is the state of a task of an allocation, with its events.
type TaskState struct {
	State       string
	Failed      bool
	Restarts    uint64
	LastRestart time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	Events      []*TaskEvent
	// Paused is force_pause or scheduled_pause while the task is paused, and force_run if a user runs it outside of its
	// schedule. The type of Nomad's client library does not have it.
	Paused string `json:",omitempty"`
	// ArtifactDigests holds the digest of each downloaded file, such as sha256:9f86..., by destination as
	// in the job. It exists only in open-nomad.
	ArtifactDigests map[string]string `json:",omitempty"`
	// Isolation is the isolation level with which the task was started last. It exists only in open-nomad.
	Isolation string `json:",omitempty"`
}

// TaskEvent is an event of a task. Time is in Unix nanoseconds.
type TaskEvent struct {
	Type             string
	Time             int64
	DisplayMessage   string
	Details          map[string]string
	Message          string
	FailsTask        bool
	RestartReason    string
	SetupError       string
	DriverError      string
	DriverMessage    string
	ExitCode         int
	Signal           int
	KillReason       string
	KillTimeout      time.Duration
	KillError        string
	StartDelay       int64
	DownloadError    string
	ValidationError  string
	DiskLimit        int64
	DiskSize         int64
	FailedSibling    string
	VaultError       string
	TaskSignalReason string
	TaskSignal       string
	GenericSource    string
}

// AllocatedResources are the resources of an allocation.
type AllocatedResources struct {
	Tasks  map[string]*AllocatedTaskResources
	Shared AllocatedSharedResources
}

// AllocatedTaskResources are the resources of one task of an allocation.
type AllocatedTaskResources struct {
	Cpu      AllocatedCpuResources
	Memory   AllocatedMemoryResources
	Networks []*workload.NetworkResource
	Devices  []*AllocatedDeviceResource
}

// AllocatedSharedResources are the resources that the tasks of an allocation share.
type AllocatedSharedResources struct {
	DiskMB   int64
	Networks []*workload.NetworkResource
	Ports    []PortMapping
}

// AllocatedCpuResources is CPU in MHz.
type AllocatedCpuResources struct {
	CpuShares int64
}

// AllocatedMemoryResources is the reserved memory and the memory limit in MiB.
type AllocatedMemoryResources struct {
	MemoryMB    int64
	MemoryMaxMB int64
}

// AllocatedDeviceResource lists the device instances of a task.
type AllocatedDeviceResource struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// PortMapping is a port of an allocation.
type PortMapping struct {
	Label  string
	Value  int
	To     int
	HostIP string
}

// GenericResponse is a response with only an index.
type GenericResponse struct {
	WriteMeta
}
