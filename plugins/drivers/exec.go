package drivers

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNoExec is returned for a driver without exec sessions.
var ErrNoExec = errors.New("the driver does not support exec sessions")

// Execer is a Driver that can run further programs in a task (Capabilities.Exec): in the same
// namespaces and control group, as the same user and under the same sandbox.
type Execer interface {
	// ExecTask runs a program until it ends; the end of ctx kills it. The error is about the start,
	// the result about the program's exit.
	ExecTask(ctx context.Context, id string, o *ExecOptions) (*ExitResult, error)
}

// ExecOptions describe an exec session and its connections. Without a terminal Stdin, Stdout and
// Stderr are pipes. With one, all three are the terminal, and its output goes to Stdout.
type ExecOptions struct {
	Command []string
	Env     map[string]string // as the task would get it now
	Tty     bool
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Resize  <-chan TerminalSize // nil without a terminal
}

// TerminalSize is in characters.
type TerminalSize struct{ Height, Width int }

// Sandboxer is a Driver that can compare a task's sandbox with its policy.
type Sandboxer interface {
	Sandbox(ctx context.Context, id string) (*SandboxReport, error)
}

// SandboxReport compares a running task's sandbox with its policy, in the order of the layers. It
// contains no environment.
type SandboxReport struct {
	PID     int
	Level   string // attribute driver.<name>.level of the node
	Explain string // attribute driver.<name>.explain_denials of the node
	Layers  []SandboxLayer
}

// SandboxLayer is one property. Live is empty if the kernel does not report the property of another
// process; Match is then true.
type SandboxLayer struct {
	Name     string // such as "seccomp" or "memory.max"
	Declared string
	Live     string
	Match    bool
	Stricter bool // stricter than declared; Match is then true
}

// Mismatches lists the layers that do not match.
func (r *SandboxReport) Mismatches() []SandboxLayer {
	var out []SandboxLayer
	for _, l := range r.Layers {
		if !l.Match {
			out = append(out, l)
		}
	}
	return out
}

// Reporter is a Driver that reports events of its running tasks: denials of the sandbox,
// mismatches, logs that cannot be written.
type Reporter interface {
	// Report calls tell, which must return quickly, for each event until ctx ends. When WaitTask
	// returns, all events of the task have been reported.
	Report(ctx context.Context, tell func(*TaskEvent)) error
}

// TaskEvent becomes an event of the task's state.
type TaskEvent struct {
	TaskID  string
	Type    string // such as "Sandbox Denial"
	At      time.Time
	Message string            // for people
	Details map[string]string // for programs
	Kill    bool              // the task fails because of it
}
