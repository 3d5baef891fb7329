// Package supervise keeps the tasks of one client, and the collection of their logs, running
// independently of the agent. One supervisor process per client starts and reaps every task. It moves
// the output of a task from pipes to rotated files, and stores its exit until the client has fetched
// it. It never runs task code itself: each task is executed by a stage (internal/launch), the
// companion entry that its Spec names (internal/sandbox).
//
//	agent ── Client ──unix socket──▶ supervisor ──fork──▶ stage ──execve──▶ task
//	                                     ▲ splice                            │
//	                  <task>.stdout.N ◀──┘◀────────── fifo, open O_RDWR ─────┘
//
//	          ┌────────── Start fails ──────────▶ (gone)
//	(none) ── Start ──▶ running ──exit, Kill──▶ exited ──Forget──▶ (gone)
//
// Files, all below a directory of mode 0700 that the client owns:
//
//	lock                 held by the running supervisor; contains the boot ID of the last one
//	sock                 its socket; both ends check the peer's uid
//	secret               authenticates a connection; made once, by the first client
//	log                  its log
//	tasks                a link to a tmpfs directory, if there is one
//	tasks/<n>.quarantined a record that could not be adopted (adopt.go)
//	tasks/<n>/meta       Task as JSON, written before and after the fork, and after the
//	                     execve if there is a PID namespace
//	tasks/<n>/declared   opaque data of the starter
//	tasks/<n>/status     the program's wait status, written by the init of its namespace
//	tasks/<n>/exit       Exit as JSON
//	tasks/<n>/{stdout,stderr} the log pipes
//
// The index <Logs.Root>/.logs-<task> lists the files of a log with their inode numbers. Other files in
// the directory of the logs, such as planted ones with the names of later rotations, do not count. A
// rotation moves them away if they have its name.
//
// When the agent dies, the supervisor and its tasks continue, and the next agent finds the socket. An
// agent that stops without tasks ends the supervisor at once (Leave).
//
// When the supervisor dies, its tasks continue. Each holds its pipes open for reading too, and so
// never gets SIGPIPE. The next supervisor adopts the tasks by PID, start time and boot ID, and
// continues to read. Output that a task wrote just before its end, while no process held the pipe, is
// lost. The exit status of such a task may be unknown, unless the init of its PID namespace has written
// it. An unknown status is reported as an error, never guessed. An upgrade executes the new program in
// place: children, pipes and lock are kept.
//
// The supervisor also collects the logs of tasks that another program runs, such as an external driver.
// Collect makes the FIFOs, Kill ends the collection, and Forget removes it. Such a task has no process
// here.
//
// An exit is reported when all output of the task is in its log files. A process that outlives the
// task and holds its pipe, as it can without a control group, is cut off after one second.
//
// The first request of a connection is a hello with the secret, since tasks of a rootless agent have
// the uid of the agent. Before that, the size of the request, the time, and the number of such
// connections are limited. A supervisor of an earlier version without a secret is upgraded in place by
// the first client that connects. An agent of such a version is refused.
//
// Wire: frames of a 4-byte big-endian length and JSON; raw parts may follow a request. Requests carry a
// number and are answered in any order; "wait" is answered when the task ends.
//
// Goroutines of the supervisor: one accepts, one or two per connection, one per pipe and one per
// running task, all blocked in the poller.
package supervise

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// ErrLost means that the connection to the supervisor broke during a request.
var ErrLost = errors.New("connection to the supervisor was lost")

// Spec holds the parameters of Start.
type Spec struct {
	ID     string
	Entry  string // companion entry, which executes the program in its place
	Policy []byte // input of the entry, not interpreted here
	Owner  *Owner // nil: the supervisor's user
	Logs   proc.Logs
	Group  *Group   // nil: no control group, tracking by session only
	Join   []string // files of further, existing groups to join
	Init   bool     // the policy needs a PID namespace
	Users  bool     // and a user namespace around it

	Declared json.RawMessage `json:",omitempty"` // copied to the task
}

// Owner is the user of the task, whose group may open its stdout and stderr for writing.
// Supervisors of earlier versions use the UID.
type Owner struct {
	UID, GID int
}

// Group is the control group of a task.
type Group struct {
	proc.Group
	Limits cgroup.Limits
}

func (s *Spec) validate() error {
	if s.ID == "" || s.Entry == "" {
		return errors.New("task without ID or entry")
	}
	return s.validateLogs()
}

func (s *Spec) validateLogs() error {
	if !s.Logs.Disabled && (s.Logs.Root == "" || s.Logs.Name == "" || s.Logs.MaxFiles < 1 || s.Logs.MaxBytes < 1) {
		return fmt.Errorf("task %s: logs need a directory, a name, and at least one file of one byte", s.ID)
	}
	return nil
}
