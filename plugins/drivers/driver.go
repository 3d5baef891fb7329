// Package drivers is the contract between a client and a task driver: what a
// driver is asked and what it answers. Built-in drivers implement Driver in
// process; external ones speak the same values over gRPC (plugins/host).
//
// A driver owns the processes of its tasks between StartTask and DestroyTask. A
// task is known by TaskConfig.ID ("<alloc>/<task>/<start>"). A TaskHandle is all
// that a later agent needs to find a running task again (RecoverTask).
//
//	(none) ──StartTask──▶ running ──exit, StopTask──▶ exited ──DestroyTask──▶ (none)
//	   ▲────────────────RecoverTask─┘
//
// Values only: it starts no goroutine and touches no disk.
package drivers

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
)

// ErrTaskNotFound is returned for a task ID that the driver does not know. It means that
// the driver has no process of that ID. A driver that cannot tell, as when what holds its
// processes does not answer, returns another error. The text is that of the plugin protocol.
var ErrTaskNotFound = errors.New("task not found for given id")

// RecoverableError says that starting again may succeed: the restart policy applies.
type RecoverableError struct{ Err error }

func (e *RecoverableError) Error() string { return e.Err.Error() }
func (e *RecoverableError) Unwrap() error { return e.Err }

// Driver runs tasks. All methods may be called concurrently for different tasks.
type Driver interface {
	// Name is the word of the task's driver attribute, such as "exec2".
	Name() string
	// ConfigSpec is the schema of the agent's plugin block for this driver.
	ConfigSpec() hcldec.Spec
	// SetConfig takes the decoded plugin block; called once before anything else.
	SetConfig(cfg cty.Value) error
	// TaskSpec is the schema of the task's config block.
	TaskSpec() hcldec.Spec
	// Capabilities says what the driver can do.
	Capabilities() Capabilities
	// Fingerprint sends the driver's health at once and after each change until ctx ends.
	Fingerprint(ctx context.Context) <-chan Fingerprint
	// StartTask starts the task and returns when its first instruction may run.
	StartTask(ctx context.Context, cfg *TaskConfig) (*TaskHandle, error)
	// RecoverTask takes a running (or meanwhile exited) task back from its handle. Only
	// ErrTaskNotFound means that the process is gone; any other error is retried.
	RecoverTask(ctx context.Context, h *TaskHandle) error
	// WaitTask blocks until the task exits or ctx ends.
	WaitTask(ctx context.Context, id string) (*ExitResult, error)
	// StopTask sends signal (the driver's default when empty), waits up to timeout, then kills.
	// It is also called for a task that RecoverTask could not take back. Then ErrTaskNotFound
	// has the same meaning as there.
	StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error
	// SignalTask sends one signal by name; an unknown name is an error and sends nothing.
	SignalTask(id, signal string) error
	// DestroyTask forgets an exited task and removes what it left; force kills it first. It
	// is also called for a task that RecoverTask could not take back.
	DestroyTask(id string, force bool) error
	// InspectTask tells the task's state.
	InspectTask(id string) (*TaskStatus, error)
	// TaskStats sends resource usage every interval until ctx ends or the task exits.
	TaskStats(ctx context.Context, id string, interval time.Duration) (<-chan *ResourceUsage, error)
}

// FSIsolation is how a driver shows the task its files.
type FSIsolation string

// The kinds of file system isolation; with unveil the task sees host paths.
const (
	FSIsolationNone   FSIsolation = "none"
	FSIsolationChroot FSIsolation = "chroot"
	FSIsolationImage  FSIsolation = "image"
	FSIsolationUnveil FSIsolation = "unveil"
)

// Capabilities of a driver (compat/plugins.md section 5).
type Capabilities struct {
	SendSignals          bool
	Exec                 bool
	FSIsolation          FSIsolation
	DynamicWorkloadUsers bool     // the client hands out a uid of its own to a task without user
	Networks             []string // modes that it takes: "host", "group"; empty is the host's only
	MustCreateNetwork    bool
	NoLogs               bool // the driver collects no logs
	Mounts               bool // the driver shows TaskConfig.Mounts and lays TaskConfig.Files
	Devices              bool // the driver gives TaskConfig.Devices to the task
}

// Health of a driver on a node.
type Health string

// The health states of a driver.
const (
	HealthUndetected Health = "undetected"
	HealthUnhealthy  Health = "unhealthy"
	HealthHealthy    Health = "healthy"
)

// Fingerprint is what a driver says of itself.
type Fingerprint struct {
	Health      Health
	Description string
	Attributes  map[string]string
}

// TaskConfig is everything a driver needs to start one task.
type TaskConfig struct {
	ID           string // "<alloc id>/<task name>/<8 hex of this start>"
	JobID        string
	JobName      string
	Namespace    string
	AllocID      string
	TaskGroup    string
	Name         string
	NodeID       string
	NodeName     string
	User         string // a name, "<uid>", or "nomad-<uid>" for a dynamic user
	Env          map[string]string
	Config       cty.Value // decoded by TaskSpec, after interpolation
	Limits       LinuxResources
	Ports        []Port
	AllocDir     string // <alloc_dir>/<alloc id>
	TaskDir      string // <alloc_dir>/<alloc id>/<task>; the working directory
	SharedDir    string // <alloc_dir>/<alloc id>/alloc
	LocalDir     string
	SecretsDir   string
	LogDir       string // <alloc>/alloc/logs
	Log          LogConfig
	Mounts       []Mount
	Devices      []string   // paths of devices that the task may use
	Files        []HostFile // laid over files of the host, where the driver can
	Writable     []string   // host paths of the node's volumes: any task may have made links there
	CgroupParent string     // e.g. "nomad.slice"
	NetNS        string     // path of the allocation's network namespace, "" for the host's
	OOMScoreAdj  int
}

// LinuxResources are the limits of the task's cgroup.
type LinuxResources struct {
	MemoryBytes    int64 // soft when MemoryMaxBytes is set, hard else
	MemoryMaxBytes int64 // hard; 0 when equal to MemoryBytes, negative when there is no hard limit
	CPUShares      int64 // MHz asked for
	MHzPerCore     uint64
	Cores          []uint16 // reserved cores; empty for the shared ones
}

// Mount shows a host path to the task.
type Mount struct {
	TaskPath string // absolute; a driver with its own mount namespace binds it there
	HostPath string // without links: whoever meets one on the way refuses it
	ReadOnly bool
}

// HostFile lays a file that the client made over one of the host, such as
// /etc/resolv.conf; read only. Name is relative to the allocation's directory.
type HostFile struct {
	Name   string
	Target string
}

// TaskHandle is what survives an agent: stored in the client's state database.
type TaskHandle struct {
	Driver  string
	Version int
	TaskID  string
	State   []byte // the driver's own msgpack
}

// ExitResult is how a task ended. A task killed by signal N has Signal N and
// ExitCode 128+N.
type ExitResult struct {
	ExitCode  int
	Signal    int
	OOMKilled bool
	// ForksDenied is how often the task was kept from making a process by its bound of them.
	ForksDenied uint64
	Err         error
}

// Successful says whether the task ended with status 0 by itself.
func (r *ExitResult) Successful() bool {
	return r.ExitCode == 0 && r.Signal == 0 && r.Err == nil && !r.OOMKilled
}

// TaskState is the driver's view of a task.
type TaskState string

// The states of a task in a driver.
const (
	TaskRunning TaskState = "running"
	TaskExited  TaskState = "exited"
)

// TaskStatus answers InspectTask.
type TaskStatus struct {
	ID          string
	Name        string
	State       TaskState
	StartedAt   time.Time
	CompletedAt time.Time
	Exit        *ExitResult
	Attributes  map[string]string
}

// Port is a port given to the task.
type Port struct {
	Label  string
	Value  int // on the host
	To     int // inside the task's network, 0 when the same
	HostIP string
}

// LogConfig bounds the rotated log files of a task.
type LogConfig struct {
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool
}

// ResourceUsage is one sample of what a task uses; fields the driver measures
// are named in the Measured lists.
type ResourceUsage struct {
	Timestamp      time.Time
	MemoryUsage    uint64 // bytes
	MemoryRSS      uint64
	MemoryCache    uint64
	MemorySwap     uint64
	MemoryMaxUsage uint64
	MemoryMeasured []string
	CPUUser        float64 // percent of one core
	CPUSystem      float64
	CPUPercent     float64
	CPUTicks       float64 // MHz
	CPUMeasured    []string
	ThrottledTime  uint64 // ns
	ThrottledCount uint64
	Pressure       map[string]Pressure // on "cpu", "memory", "io"; empty where it is not known
}

// Pressure is how much of the time some, or all, processes of a task waited for a
// resource, in percent of the last ten seconds.
type Pressure struct{ Some, Full float64 }
