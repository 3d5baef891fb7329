package drivers

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNoExec is of a driver that runs nothing beside a task.
var ErrNoExec = errors.New("the driver runs no further programs in a task")

// Execer is a Driver that runs further programs beside a task's own
// (Capabilities.Exec): in the same namespaces and control group, as the same user and
// under the same sandbox.
type Execer interface {
	// ExecTask runs a program until it ends or ctx does, which kills it. The error is
	// about the start; how the program ended is the result.
	ExecTask(ctx context.Context, id string, o *ExecOptions) (*ExitResult, error)
}

// ExecOptions say what is run beside a task, and what it is connected to. Without a
// terminal Stdin, Stdout and Stderr are pipes; with one all three are the terminal, and
// what it shows goes to Stdout.
type ExecOptions struct {
	Command []string
	Env     map[string]string // as the task would be given it now
	Tty     bool
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Resize  <-chan TerminalSize // nil when there is no terminal
}

// TerminalSize is in characters.
type TerminalSize struct{ Height, Width int }

// Sandboxer is a Driver that can tell what its sandbox was asked to be, and what the
// kernel says that it is.
type Sandboxer interface {
	Sandbox(ctx context.Context, id string) (*SandboxReport, error)
}

// SandboxReport compares a running task's sandbox with its policy, layer by layer in
// the order in which they were laid. It holds no environment.
type SandboxReport struct {
	PID     int
	Level   string // attribute driver.exec2.level of the node
	Explain string // attribute driver.exec2.explain_denials of the node
	Layers  []SandboxLayer
}

// SandboxLayer is one property. Live is empty for what the kernel does not tell of
// another process; then only the declaration is known and Match is true.
type SandboxLayer struct {
	Name     string // such as "seccomp" or "memory.max"
	Declared string
	Live     string
	Match    bool
	Stricter bool // than declared; Match is true then
}

// Mismatches lists the layers that are not as declared.
func (r *SandboxReport) Mismatches() []SandboxLayer {
	var out []SandboxLayer
	for _, l := range r.Layers {
		if !l.Match {
			out = append(out, l)
		}
	}
	return out
}

// Reporter is a Driver that has things to say of its running tasks: what the sandbox
// refused, what is not as declared, which logs cannot be written.
type Reporter interface {
	// Report calls tell, which is quick, for each event until ctx ends. What is known
	// of a task when its WaitTask returns has been told by then.
	Report(ctx context.Context, tell func(*TaskEvent)) error
}

// TaskEvent becomes an event of the task's state.
type TaskEvent struct {
	TaskID  string
	Type    string // such as "Sandbox Denial"
	At      time.Time
	Message string            // for people
	Details map[string]string // for programs
	Kill    bool              // the task fails by it
}
