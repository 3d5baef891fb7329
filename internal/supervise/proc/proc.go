// Package proc holds the values that tell of a supervised task: what a supervisor
// answers, what drivers read, what is written to the supervisor's directory.
// Values, and what reads the index of log files.
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

// Task is what the supervisor knows of a task.
type Task struct {
	ID      string
	PID     int // of the program, its process group and session; 0 until it was executed
	Init    int // process 1 of its PID namespace; 0: it has none of its own
	Started time.Time
	Group   Group
	CPU     CPU // what the group has of it from the program's execve on
	Logs    Logs
	Exit    *Exit // nil while running
	// LogFaults are why logs cannot be written at the moment, by stream. The task waits in its
	// next write to such a stream.
	LogFaults map[string]string `json:",omitempty"`

	Boot      string // boot ID and start time tell a pid from a later one's
	StartTick uint64 // of Leader

	// Declared is what the starter wants to know again of how the task was started:
	// drivers keep the sandbox's policy here, without the environment.
	Declared json.RawMessage `json:",omitempty"`
}

// Leader is the process that the supervisor forked, with whose end the task ends: the
// namespace's process 1, or the program.
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

// CPU limits a control group, as in cgroup.Limits; zero fields limit nothing. The record
// has them, so that a supervisor that died between the execve and their setting leaves no
// task without.
type CPU struct {
	Quota, Shares int64 `json:",omitempty"`
}

// Logs says where output goes. Dir is reached from Root without following any
// symlink, since tasks may write below Root.
type Logs struct {
	Root     string // directory that no task can replace
	Dir      string // relative to Root
	Name     string // files are <name>.stdout.N and <name>.stderr.N
	MaxFiles int
	MaxBytes int64 // per file
	Disabled bool  // output goes to /dev/null
}

// Exit is how a task ended. A task killed by signal N has code 128+N.
type Exit struct {
	Code      int
	Signal    int
	OOMKilled bool
	// ForksDenied is how often the bound of processes kept the task from making one.
	ForksDenied uint64 `json:",omitempty"`
	Unknown     string // why the status is not known; Code is -1 then
	At          time.Time
}

// StartError is a failure of the task's own start, as opposed to one of the
// supervisor: trying the same again will not help.
type StartError struct{ Reason string }

func (e *StartError) Error() string { return e.Reason }
