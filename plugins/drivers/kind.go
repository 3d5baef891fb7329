package drivers

import (
	"syscall"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
)

// Kind describes a driver independently of nodes. A node runs a kind under one or more names, its
// instances, each with its own configuration. Servers and commands use it for checks that need no
// node. A nil function has no result. Kinds are shared and never modified.
type Kind struct {
	Name    string
	Aliases []string // other labels of its plugin block

	// Daemon means that tasks need a program that not every node has.
	Daemon bool

	// OptIn means that an agent runs the kind only with a plugin block, or with -dev.
	OptIn bool

	ConfigSpec hcldec.Spec    // schema of the plugin block
	DevConfig  map[string]any // defaults of the plugin block with -dev
	TaskSpec   hcldec.Spec    // schema of a task's config block

	// Capabilities are those on a node that lacks nothing.
	Capabilities Capabilities
	KillSignal   syscall.Signal // default of StopTask
	// SignalsMain means that the signals of StopTask and SignalTask go to the main process of a task, not to its process
	// group.
	SignalsMain bool
	// Grouped means that the processes of a task are in a control group of their own, whose name
	// TaskGroup returns.
	Grouped bool
	// Unveils means that tasks have the options unveil and network, and that nodes report what the
	// sandbox denied (attributes explain_denials and unveil.tasks).
	Unveils bool

	// CheckConfig checks a plugin block. It reads no files.
	CheckConfig func(block map[string]any) error
	// CheckTask checks the user and the config block of a task. The config has references that are
	// not interpolated.
	CheckTask func(user string, config map[string]any) error
	// CheckPorts checks the config block of a task, which CheckTask accepts, against the network
	// blocks of its job.
	CheckPorts func(config map[string]any, net *NetworkAsk) error
	// WarnTask returns warnings about a valid task.
	WarnTask func(user string, config map[string]any) []string
	// Least returns the minimum values of attributes of a node that can run a task. The keys are
	// relative to the attributes of the instance.
	Least func(config map[string]any) map[string]int
	// Isolates returns the most that isolates a task with this user and config block, on a node
	// that lacks nothing and whose instance has the strictest configuration. The config has
	// references that are not interpolated. Nil: nothing isolates the tasks.
	Isolates func(user string, config map[string]any) Isolation
	// NeedsPrivilege returns what needs privileged = true in a task with this config block, for
	// errors. It is empty if nothing does. The config may have references that are not interpolated:
	// a kind counts them as the worst case, or returns "" and leaves the check to the node. Nil: no
	// task needs privilege, and no instance offers it.
	NeedsPrivilege func(config map[string]any) string
}

// CheckWith returns a CheckConfig for a schema and the function that converts its values.
func CheckWith[S any](spec hcldec.Spec, decode func(cty.Value) (S, error)) func(block map[string]any) error {
	return func(block map[string]any) error {
		v, err := Decode(block, spec)
		if err == nil {
			_, err = decode(v)
		}
		return err
	}
}

// Attribute returns the name of a node attribute of a driver instance. An empty key is the
// attribute that the node has while the instance is detected.
func Attribute(instance, key string) string {
	if key == "" {
		return "driver." + instance
	}
	return "driver." + instance + "." + key
}

// Keys of attributes of driver instances.
const (
	BackendKey  = "backend"         // the kind of the instance; every instance has it
	SchemaKey   = "schema"          // the digest of the schema of the instance's tasks
	LandlockKey = "landlock.abi"    // the ABI version of Landlock
	UnveilKey   = "unveil.tasks"    // whether tasks can unveil paths
	ExplainKey  = "explain_denials" // which denials are reported
	LevelKey    = "level"           // the highest isolation level of the instance
	LacksKey    = "lacks"           // what it lacks for a higher level
	// PrivilegedKey is the key of the attribute that reports whether the instance runs tasks with
	// privileged = true.
	PrivilegedKey = "privileged.enabled"
)
