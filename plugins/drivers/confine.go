package drivers

import (
	"context"
	"os"
)

// Confiner is a Driver that can run programs of the client with the confinement of a task: the
// task's user, namespaces, network, control group and system calls. The client uses it to download
// the artifacts of the task and to render its templates.
type Confiner interface {
	// Confine runs s until it ends. The end of ctx kills it and all its descendants. It needs no running
	// task: it is called before StartTask, while the task runs, and between two starts. Only the
	// paths of s are accessible, whatever the task itself may access. The error is about the start;
	// the result is the program's exit. A layer that cannot be applied is an error.
	//
	// Before the task starts, its control group has at least SidecarMemory bytes and no CPU quota.
	// Afterwards the limits of the task apply to the task and s together.
	Confine(ctx context.Context, cfg *TaskConfig, s *Sidecar) (*ExitResult, error)
}

// SidecarMemory is the minimum memory limit of a sidecar before its task starts, in bytes.
const SidecarMemory = 64 << 20

// SidecarLimit returns the memory limit of the sidecars of a task before it starts, in bytes; 0 is none, which only a
// task without a hard limit has. While the task runs, its own limit applies to it and its sidecars together.
func (r LinuxResources) SidecarLimit() int64 {
	if r.MemoryMaxBytes < 0 {
		return 0
	}
	return max(r.MemoryBytes, r.MemoryMaxBytes, SidecarMemory)
}

// Sidecar is a program of the client that works for a task.
type Sidecar struct {
	Program *os.File // executable; it is executed by descriptor, never by a path
	Args    []string // Args[0] selects the entry of the program
	Env     map[string]string
	Dir     string        // working directory, inside the allocation's directory
	Paths   []SidecarPath // the only accessible paths
	Hide    []string      // absolute directories that appear empty, such as the task's secrets
	Stdio   [3]*os.File   // descriptors 0 to 2; nil is /dev/null. The caller closes its copies.
	Limits  SidecarLimits // in addition to those of the control group
	NoTCP   bool          // no TCP connections; needs Landlock ABI 4. Otherwise the task's own restrictions hold.
	// Unconfined omits Landlock and so the restriction of NoTCP, because the operator has disabled it
	// in the configuration. All other layers remain.
	Unconfined bool
}

// SidecarPath is an accessible path. Modes are letters of rwxc (c: create and remove entries).
// With Beneath, Name is relative to that directory, and no link is followed below it.
type SidecarPath struct {
	Modes    string
	Name     string
	Beneath  string
	Optional bool // skipped if it does not exist
}

// SidecarLimits are resource limits of the process; 0 sets none.
type SidecarLimits struct {
	FileSize uint64 // bytes of a single file (RLIMIT_FSIZE)
}
