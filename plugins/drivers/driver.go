// Package drivers is the contract between a client and a task driver: the requests to a driver and
// its answers. Built-in drivers implement Driver in process. External drivers use the same values over
// gRPC (plugins/host).
//
// A driver owns the processes of a task from StartTask to DestroyTask. TaskConfig.ID identifies a task
// ("<alloc>/<task>/<start>"). A TaskHandle contains everything that a later agent needs to find a
// running task again (RecoverTask).
//
//	(none) ──StartTask──▶ running ──exit, StopTask──▶ exited ──DestroyTask──▶ (none)
//	   ▲────────────────RecoverTask─┘
//
// The package starts no goroutine and does not access the disk.
package drivers

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
)

// ErrTaskNotFound means that the driver has no process with the task ID. A driver that cannot
// determine this, for example because its supervisor does not answer, returns another error. The
// text is that of the plugin protocol.
var ErrTaskNotFound = errors.New("task not found for given id")

// ErrNotRunning means that the program of an external driver is not running. The client starts it
// again. In the meantime, the tasks continue.
var ErrNotRunning = errors.New("the program of the driver is not running")

// RecoverableError marks an error after which the restart policy applies.
type RecoverableError struct{ Err error }

func (e *RecoverableError) Error() string { return e.Err.Error() }
func (e *RecoverableError) Unwrap() error { return e.Err }

// Driver runs tasks. All methods may be called concurrently for different tasks.
type Driver interface {
	// Name is the name of the instance: the value of the driver attribute of its tasks.
	Name() string
	// ConfigSpec is the schema of the agent's plugin block for this driver.
	ConfigSpec() hcldec.Spec
	// SetConfig applies the decoded plugin block; called once before anything else.
	SetConfig(cfg cty.Value) error
	// TaskSpec is the schema of the task's config block.
	TaskSpec() hcldec.Spec
	// Capabilities returns the capabilities of the driver.
	Capabilities() Capabilities
	// Fingerprint sends the driver's health at once and after each change until ctx ends.
	Fingerprint(ctx context.Context) <-chan Fingerprint
	// StartTask starts the task and returns when its first instruction may run.
	StartTask(ctx context.Context, cfg *TaskConfig) (*TaskHandle, error)
	// RecoverTask takes over a running or exited task by its handle. Only ErrTaskNotFound means
	// that the process no longer exists; any other error is retried.
	RecoverTask(ctx context.Context, h *TaskHandle) error
	// WaitTask blocks until the task exits or ctx ends.
	WaitTask(ctx context.Context, id string) (*ExitResult, error)
	// StopTask sends signal (the driver's default when empty), waits up to timeout, then kills. It
	// is also called for a task that RecoverTask could not recover. Then ErrTaskNotFound has the
	// same meaning as there.
	StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error
	// SignalTask sends one signal by name; an unknown name is an error and sends nothing. The error for a task that has ended
	// is ErrTaskNotFound.
	SignalTask(id, signal string) error
	// DestroyTask removes an exited task and its remains; force kills it first. It is also called
	// for a task that RecoverTask could not recover.
	DestroyTask(id string, force bool) error
	// InspectTask returns the task's state.
	InspectTask(id string) (*TaskStatus, error)
	// TaskStats sends resource usage every interval until ctx ends or the task exits.
	TaskStats(ctx context.Context, id string, interval time.Duration) (<-chan *ResourceUsage, error)
}

// Meterer is a Driver that can measure a task at once, so that one goroutine can sample all its tasks.
type Meterer interface {
	// Meter returns a function that measures a task. Its rates are those since its last call. After
	// the end of the task it measures nothing. It is not called concurrently.
	Meter(id string) (measure func() *ResourceUsage, err error)
}

// FSIsolation is the kind of file system isolation.
type FSIsolation string

// The kinds of file system isolation; with unveil the task sees host paths.
const (
	FSIsolationNone   FSIsolation = "none"
	FSIsolationChroot FSIsolation = "chroot"
	FSIsolationImage  FSIsolation = "image"
	FSIsolationUnveil FSIsolation = "unveil"
)

// OwnRoot reports whether a task has a root directory of its own, with the task's directories at /alloc, /local and
// /secrets.
func (f FSIsolation) OwnRoot() bool { return f == FSIsolationChroot || f == FSIsolationImage }

// PrivateTmp is the directory that drivers with mount namespaces replace by one of the task, with the
// mount points in it.
const PrivateTmp = "/tmp"

// Capabilities are the capabilities of a driver, as in Nomad 2.0's plugin protocol.
type Capabilities struct {
	SendSignals          bool
	Exec                 bool
	FSIsolation          FSIsolation
	DynamicWorkloadUsers bool     // the client assigns a dynamic uid to a task without user
	DefaultUser          string   // user of a task without one, "" for that of the agent or of the driver
	OwnEnvironment       bool     // a task does not get the environment of the agent, whatever FSIsolation is
	Networks             []string // supported modes: NetworkHost, NetworkGroup; empty means NetworkHost
	MustCreateNetwork    bool     // the driver is a NetworkCreator, and its tasks only join such networks
	NoLogs               bool     // the driver collects no logs
	Mounts               bool     // the driver mounts TaskConfig.Mounts and TaskConfig.Files
	Propagations         []string // supported values of Mount.Propagation, apart from ""
	SELinux              bool     // the driver applies Mount.SELinuxLabel
	Devices              bool     // the driver gives TaskConfig.Devices to the task
	DNS                  bool     // the driver applies TaskConfig.DNS itself
	Hostname             bool     // the driver applies TaskConfig.Hostname; one with MustCreateNetwork need not
}

// Health of a driver on a node.
type Health string

// The health states of a driver.
const (
	HealthUndetected Health = "undetected"
	HealthUnhealthy  Health = "unhealthy"
	HealthHealthy    Health = "healthy"
)

// Fingerprint is a driver's health and attributes.
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
	Privileged   bool      // privileged = true in the task: the client has checked it with Privilege
	Isolation    Isolation // what Isolates returned for the task
	Level        Level     // the lowest level that the task may have: its job requires it, or its tokens claim it
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
	Devices      []Device   // devices that the task may use
	Files        []HostFile // mounted over files of the host, if the driver can
	DNS          *DNS       // nil for that of the host; only with Capabilities.DNS
	Writable     []string   // host paths of the node's volumes: any task may have created links there
	CgroupParent string     // e.g. "nomad.slice"
	NetNS        string     // path of the allocation's network namespace, "" for the host's
	// NetLabels are the labels of the NetworkCreator that created NetNS.
	NetLabels map[string]string
	// Hostname is that of the task in NetNS, for a driver with Capabilities.Hostname.
	Hostname string
	// Stdout and Stderr are FIFOs, or /dev/null, to which the driver writes the output. The caller
	// collects it. If they are empty, the driver collects the output, as Log and LogDir specify.
	Stdout, Stderr string
}

// LinuxResources are the limits of the task's cgroup.
type LinuxResources struct {
	MemoryBytes    int64 // soft if MemoryMaxBytes is set, else hard
	MemoryMaxBytes int64 // hard; 0 if equal to MemoryBytes, negative for no hard limit
	CPUShares      int64 // requested MHz
	MHzPerCore     uint64
	Cores          []uint16 // reserved cores; empty for the shared ones
}

// Mount makes a host path visible to the task.
type Mount struct {
	TaskPath string // absolute; a driver with its own mount namespace binds it there
	HostPath string // without links: drivers refuse a path with one
	ReadOnly bool
	// Propagation is PropagateToTask or PropagateBoth. "" keeps later mounts on their side.
	Propagation  string
	SELinuxLabel string // "z" or "Z"; "" changes no label
	// Devices means that the mount has the devices of the node. A task that cannot use them has no such mount.
	Devices bool
}

// The propagation of mounts that are made later below a volume.
const (
	PropagateToTask = "host-to-task"
	PropagateBoth   = "bidirectional"
)

// Device makes a device of the host visible to the task.
type Device struct {
	TaskPath    string
	HostPath    string
	Permissions string // letters of "rwm", as in a control group
}

// DNS is the configuration of a resolver.
type DNS struct {
	Servers  []string
	Searches []string
	Options  []string
}

// HostFile is a file of the client that is mounted read-only over one of the host, such as
// /etc/resolv.conf. Name is relative to the allocation's directory.
type HostFile struct {
	Name   string
	Target string
}

// TaskHandle is stored in the client's state database, for later agents.
type TaskHandle struct {
	Driver  string
	Version int
	TaskID  string
	State   []byte // the driver's own msgpack
	// Network is the task's own network, nil for none. StartTask sets it; the client stores it apart.
	Network *TaskNetwork `codec:"-"`
	// Lowered is the isolation level of the task if the driver found less than Isolates returned, else "".
	// StartTask sets it; the client stores it with the state of the task.
	Lowered string `codec:"-"`
}

// ExitResult is the result of a task. A task killed by signal N has Signal N and ExitCode 128+N.
type ExitResult struct {
	ExitCode  int
	Signal    int
	OOMKilled bool
	// ForksDenied counts the forks that the process limit denied.
	ForksDenied uint64
	Err         error
}

// Successful reports whether the task ended with status 0 by itself.
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

// TaskStatus is the answer of InspectTask.
type TaskStatus struct {
	ID          string
	Name        string
	State       TaskState
	StartedAt   time.Time
	CompletedAt time.Time
	Exit        *ExitResult
	Attributes  map[string]string
	Network     *TaskNetwork // nil for none
}

// Port is a port assigned to the task.
type Port struct {
	Label  string
	Value  int // on the host
	To     int // inside the task's network, 0 if the same
	HostIP string
	Own    bool // of the task's own network block in resources, not of the group's
}

// LogConfig limits the rotated log files of a task.
type LogConfig struct {
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool
}

// ResourceUsage is one sample of a task's resource usage. The Measured lists name the fields that
// the driver measures.
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
	Pressure       map[string]Pressure // of "cpu", "memory", "io"; empty if not available
}

// Pressure is the percentage of the last ten seconds in which some, or all, processes of a task
// waited for a resource.
type Pressure struct{ Some, Full float64 }
