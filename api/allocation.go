package api

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
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
	Job                   *Job
	TaskGroup             string
	Resources             *Resources
	TaskResources         map[string]*Resources
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
	ResourcesExhausted map[string]*Resources
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
	DNS           *DNSConfig
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

// ShouldMigrate reports whether the allocation has to move to another node.
func (d DesiredTransition) ShouldMigrate() bool { return isTrue(d.Migrate) }

// ShouldReschedule reports whether the allocation may be rescheduled.
func (d DesiredTransition) ShouldReschedule() bool { return isTrue(d.Reschedule) }

// ShouldForceReschedule reports whether the allocation is rescheduled against its policy.
func (d DesiredTransition) ShouldForceReschedule() bool { return isTrue(d.ForceReschedule) }

// ShouldIgnoreShutdownDelay reports whether the tasks stop without their shutdown delay.
func (d DesiredTransition) ShouldIgnoreShutdownDelay() bool { return isTrue(d.NoShutdownDelay) }

// ShouldDisableMigrationPlacement reports whether the allocation stops without a replacement.
func (d DesiredTransition) ShouldDisableMigrationPlacement() bool {
	return isTrue(d.MigrateDisablePlacement)
}

func isTrue(b *bool) bool { return b != nil && *b }

// ServerTerminalStatus reports whether the servers want the allocation to stop.
func (a *Allocation) ServerTerminalStatus() bool {
	return a.DesiredStatus == AllocDesiredStatusStop || a.DesiredStatus == AllocDesiredStatusEvict
}

// ClientTerminalStatus reports whether the tasks have ended for good.
func (a *Allocation) ClientTerminalStatus() bool {
	switch a.ClientStatus {
	case AllocClientStatusComplete, AllocClientStatusFailed, AllocClientStatusLost:
		return true
	}
	return false
}

// GetTaskGroup returns the group of the allocation, or nil without its job.
func (a *Allocation) GetTaskGroup() *TaskGroup {
	if a.Job == nil {
		return nil
	}
	return a.Job.LookupTaskGroup(a.TaskGroup)
}

// AllocSuffix returns the part of the name of an allocation after that of its group, such as "[3]".
func AllocSuffix(name string) string {
	if i := strings.LastIndexByte(name, '['); i >= 0 {
		return name[i:]
	}
	return ""
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
	Networks []*NetworkResource
	Devices  []*AllocatedDeviceResource
}

// AllocatedSharedResources are the resources that the tasks of an allocation share.
type AllocatedSharedResources struct {
	DiskMB   int64
	Networks []*NetworkResource
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

// Allocations is the handle for allocations.
type Allocations struct{ client *Client }

// Allocations returns the handle for allocations.
func (c *Client) Allocations() *Allocations { return &Allocations{c} }

func allocPath(id, rest string) string { return "/v1/allocation/" + url.PathEscape(id) + rest }

func clientAllocPath(id, rest string) string {
	return "/v1/client/allocation/" + url.PathEscape(id) + rest
}

// List lists allocations, oldest first.
func (a *Allocations) List(q *QueryOptions) ([]*AllocationListStub, *QueryMeta, error) {
	return get[[]*AllocationListStub](a.client, "/v1/allocations", q)
}

// PrefixList lists the allocations whose ID begins with prefix.
func (a *Allocations) PrefixList(prefix string) ([]*AllocationListStub, *QueryMeta, error) {
	return a.List(&QueryOptions{Prefix: prefix})
}

// Info returns an allocation with its job.
func (a *Allocations) Info(allocID string, q *QueryOptions) (*Allocation, *QueryMeta, error) {
	return get[*Allocation](a.client, allocPath(allocID, ""), q)
}

// Stop stops an allocation. The scheduler may place a new one. q.Params can contain the
// parameters no_shutdown_delay and reschedule.
func (a *Allocations) Stop(alloc *Allocation, q *QueryOptions) (*AllocStopResponse, error) {
	var out AllocStopResponse
	meta, err := a.client.queryBody(call{http.MethodPut, allocPath(alloc.ID, "/stop"), nil, &out}, q)
	if err != nil {
		return nil, err
	}
	out.LastIndex, out.RequestTime = meta.LastIndex, meta.RequestTime
	return &out, nil
}

// Restart restarts a task in place. An empty name means all running tasks.
func (a *Allocations) Restart(alloc *Allocation, taskName string, q *QueryOptions) error {
	return a.restart(alloc, &AllocationRestartRequest{TaskName: taskName}, q)
}

// RestartAllTasks restarts all tasks in place, including exited tasks.
func (a *Allocations) RestartAllTasks(alloc *Allocation, q *QueryOptions) error {
	return a.restart(alloc, &AllocationRestartRequest{AllTasks: true}, q)
}

func (a *Allocations) restart(alloc *Allocation, req *AllocationRestartRequest, q *QueryOptions) error {
	_, err := a.client.queryBody(call{http.MethodPut, clientAllocPath(alloc.ID, "/restart"), req, nil}, q)
	return err
}

// Signal sends a signal to a task. An empty name means all tasks.
func (a *Allocations) Signal(alloc *Allocation, q *QueryOptions, task, signal string) error {
	req := &AllocSignalRequest{Task: task, Signal: signal}
	_, err := a.client.queryBody(call{http.MethodPut, clientAllocPath(alloc.ID, "/signal"), req, nil}, q)
	return err
}

// Stats returns the current resource usage of an allocation.
func (a *Allocations) Stats(alloc *Allocation, q *QueryOptions) (*AllocResourceUsage, error) {
	out, _, err := get[*AllocResourceUsage](a.client, clientAllocPath(alloc.ID, "/stats"), q)
	return out, err
}

// Checks returns the latest results of the checks of an allocation's services.
func (a *Allocations) Checks(allocID string, q *QueryOptions) (AllocCheckStatuses, error) {
	out, _, err := get[AllocCheckStatuses](a.client, clientAllocPath(allocID, "/checks"), q)
	return out, err
}

// ConsulServices returns the services of an allocation that its node registers in Consul. It exists only in open-nomad.
func (a *Allocations) ConsulServices(allocID string, q *QueryOptions) ([]*AllocConsulService, error) {
	out, _, err := get[[]*AllocConsulService](a.client, clientAllocPath(allocID, "/services"), q)
	return out, err
}

// GC makes the node of a stopped allocation remove its files.
func (a *Allocations) GC(alloc *Allocation, q *QueryOptions) error {
	_, err := a.client.query(clientAllocPath(alloc.ID, "/gc"), nil, q)
	return err
}

// Sandbox compares the live and the declared sandbox of a task. An empty task means all
// sandboxed tasks. It exists only in open-nomad.
func (a *Allocations) Sandbox(alloc *Allocation, task string, q *QueryOptions) (map[string]*TaskSandbox, error) {
	q = ofTask(q, task)
	out, _, err := get[map[string]*TaskSandbox](a.client, clientAllocPath(alloc.ID, "/sandbox"), q)
	return out, err
}

// DiffTemplates renders the templates of a task without writing them. An empty task means all
// running tasks. It exists only in open-nomad.
func (a *Allocations) DiffTemplates(alloc *Allocation, task string, q *QueryOptions) (map[string][]*TemplateRender, error) {
	out, _, err := get[map[string][]*TemplateRender](a.client, clientAllocPath(alloc.ID, "/templates"), ofTask(q, task))
	return out, err
}

// RenderTemplates renders the templates of a task again and applies their change modes. An empty
// task means all running tasks. It exists only in open-nomad.
func (a *Allocations) RenderTemplates(alloc *Allocation, task string, q *QueryOptions) (map[string][]*TemplateRender, error) {
	var out map[string][]*TemplateRender
	_, err := a.client.queryBody(call{http.MethodPut, clientAllocPath(alloc.ID, "/templates"), nil, &out}, ofTask(q, task))
	return out, err
}

// ofTask returns q with the task of a request about an allocation.
func ofTask(q *QueryOptions, task string) *QueryOptions {
	if task == "" {
		return q
	}
	own := QueryOptions{}
	if q != nil {
		own = *q
	}
	own.Params = maps.Clone(own.Params)
	if own.Params == nil {
		own.Params = map[string]string{}
	}
	own.Params["task"] = task
	return &own
}
