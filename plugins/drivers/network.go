package drivers

import "context"

// The network modes of a driver.
const (
	NetworkHost  = "host"  // tasks use the network of the host
	NetworkGroup = "group" // tasks join the network namespace of their allocation
)

// NetworkCreator is a Driver that creates the networks of allocations (Capabilities.MustCreateNetwork),
// in place of the client.
type NetworkCreator interface {
	// CreateNetwork creates the network of an allocation, or returns the existing one. An empty
	// hostname is the driver's choice.
	CreateNetwork(ctx context.Context, allocID, hostname string) (*GroupNetwork, error)
	// DestroyNetwork removes the network of an allocation, which has no tasks. A network that does
	// not exist is not an error. n is nil if an earlier agent created it.
	DestroyNetwork(ctx context.Context, allocID string, n *GroupNetwork) error
}

// Processer is a Driver whose tasks are in control groups that the client does not know by name.
type Processer interface {
	// TaskProcess returns the ID of a process in the control group of a task, in which there is nothing else.
	// ErrTaskNotFound means that the task does not run.
	TaskProcess(ctx context.Context, id string) (pid int, err error)
}

// GroupNetwork is the network of an allocation.
type GroupNetwork struct {
	Path   string            // of the network namespace
	Labels map[string]string // of its creator, which gets them back
}

// NetworkAsk is the network of a job's task before its placement.
type NetworkAsk struct {
	Group bool   // the tasks of the group join a network namespace
	Ports []Port // of the group and of the task; Value is 0 for a dynamic port
}

// TaskNetwork is a network that a driver created for one task.
type TaskNetwork struct {
	IP      string
	PortMap map[string]int // ports in that network, by label
	// AutoAdvertise is set if services of the task use this address by default.
	AutoAdvertise bool
}
