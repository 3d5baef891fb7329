// Package proc holds the values that describe a supervised task: the parameters of its start, the answers of a
// supervisor, and the records in the supervisor's directory. It also has the readers of the log index and of
// /proc/<pid>/stat, and no other code.
package proc

import (
	"encoding/json"
	"errors"
	"time"
)

// ErrUnknownTask means that the supervisor does not know the task.
var ErrUnknownTask = errors.New("the supervisor does not know this task")

// ErrRunning means that the task has not ended.
var ErrRunning = errors.New("the task is running")

// Task is the supervisor's record of a task.
type Task struct {
	ID      string
	PID     int // of the program, its process group and session; 0 before the execve
	Init    int // process 1 of its PID namespace; 0: no own namespace
	Started time.Time
	Group   Group
	CPU     CPU      // limits that are set from the program's execve on
	Before  Counters `json:",omitzero"`
	Logs    Logs
	Exit    *Exit // nil while running
	// Pipes are the FIFOs for stdout and stderr of a task that another program runs: the supervisor only
	// collects its logs, and PID is 0. Nil for a task of the supervisor.
	Pipes []string `json:",omitempty"`
	// LogFaults are the current reasons why logs cannot be written, by stream. The task blocks in
	// its next write to such a stream.
	LogFaults map[string]string `json:",omitempty"`

	Boot      string // boot ID and start time distinguish a PID from a later, reused one
	StartTick uint64 // of Leader

	// Declared is opaque data of the starter. Drivers keep the sandbox's policy here, without the
	// environment.
	Declared json.RawMessage `json:",omitempty"`
}

// Collects reports whether the supervisor only collects the logs of the task.
func (t *Task) Collects() bool { return t.Pipes != nil }

// Leader returns the process that the supervisor forked: process 1 of the namespace, or the
// program. The task ends when it ends.
func (t *Task) Leader() int {
	if t.Init != 0 {
		return t.Init
	}
	return t.PID
}

// Group names a control group; the zero value means none.
type Group struct {
	Parent, Name string
}

// Counters are the counters of a control group before the task's start. Programs that worked for the
// task may have used the group.
type Counters struct {
	OOMKills, ForksDenied uint64 `json:",omitempty"`
}

// CPU holds the CPU limits of a control group, as in cgroup.Limits. A zero field means no limit. The
// limits are set after the execve. They are recorded, so that the next supervisor sets them if this
// one dies before.
type CPU struct {
	Quota, Shares int64 `json:",omitempty"`
}

// Logs configures the output files. Dir is resolved from Root without following symlinks, since
// tasks may write below Root.
type Logs struct {
	Root     string // directory that no task can replace
	Dir      string // relative to Root
	Name     string // files are <name>.stdout.N and <name>.stderr.N
	MaxFiles int
	MaxBytes int64 // per file
	Disabled bool  // nothing is collected: output goes to Stdout and Stderr, or to /dev/null
	// Stdout and Stderr are FIFOs, or /dev/null, of another collector.
	Stdout, Stderr string `json:",omitempty"`
}

// Exit is the result of a task. A task killed by signal N has code 128+N.
type Exit struct {
	Code      int
	Signal    int
	OOMKilled bool
	// OOMKills counts the processes in the task's group that the OOM killer killed, including programs
	// that work for the task. Supervisors of earlier versions set only OOMKilled.
	OOMKills uint64 `json:",omitempty"`
	// ForksDenied counts the forks that the process limit denied.
	ForksDenied uint64 `json:",omitempty"`
	Unknown     string // why the status is not known; Code is then -1
	At          time.Time
}

// StartError is a failure of the task's own start, not of the supervisor. Retrying does not help.
type StartError struct{ Reason string }

func (e *StartError) Error() string { return e.Reason }
