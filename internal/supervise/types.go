// Package supervise keeps the tasks of one client and their logs alive whatever
// happens to the agent. One supervisor process per client starts every task,
// reaps it, moves its output from pipes to rotated files, and remembers its exit
// until the client has let go of it. It never runs task code itself: each task is
// executed by a stage (internal/launch), the companion entry that its Spec names (internal/sandbox).
//
//	agent ── Client ──unix socket──▶ supervisor ──fork──▶ stage ──execve──▶ task
//	                                     ▲ splice                            │
//	                  <task>.stdout.N ◀──┘◀────────── fifo, open O_RDWR ─────┘
//
//	          ┌────────── Start fails ──────────▶ (gone)
//	(none) ── Start ──▶ running ──exit, Kill──▶ exited ──Forget──▶ (gone)
//
// Disk, all below a directory of mode 0700 that the client owns:
//
//	lock                 held by the living supervisor; holds the boot ID of the last one
//	sock                 its socket; both ends check the other's uid
//	secret               opens a connection; made once, by the client that needs it first
//	log                  what it has to say
//	tasks                a link into memory, if there is such a file system
//	tasks/<n>.quarantined a record that could not be adopted (adopt.go)
//	tasks/<n>/meta       Task as JSON, written before and after the fork, and after the
//	                     execve if there is a PID namespace
//	tasks/<n>/declared   what its starter wants to know of it again
//	tasks/<n>/status     the program's wait status, written by the init of its namespace
//	tasks/<n>/exit       Exit as JSON
//	tasks/<n>/{stdout,stderr} the log pipes
//
// The files of a log are those that the index <Logs.Root>/.logs-<task> lists, with their inode
// numbers: what tasks put beside them, under the names of later rotations for example, does not
// count, and is moved away where it is in the way of a rotation.
//
// When the agent dies, nothing happens; the next one finds the socket. One that stops and
// leaves no task has the supervisor end at once (Leave). When the
// supervisor dies, tasks go on, since each holds its pipes open for reading too and
// so never gets SIGPIPE; the next supervisor adopts them by pid, start time and boot
// and reads on. What they wrote just before they ended while nobody held the pipe
// is lost, and the exit status of such a task may be unknown, unless an init of its PID
// namespace has written it: it is then told as an error, never guessed. An upgrade executes the new program in place: children,
// pipes and lock are kept.
//
// An exit is told when all that the task wrote is in its log files. Who outlived the
// task with its pipe in hand, as without a control group, is cut off a second later.
//
// The first request of a connection is a hello with the secret, since tasks of an agent that is not
// root have the uid of the agent. Until then a connection has few bytes, little time and a bounded
// number of others beside it. A supervisor of an earlier version, which knows no secret, is upgraded
// in place by the first client that meets it. An agent of such a version is refused by this one.
//
// Wire: frames of a 4-byte big-endian length and JSON, which parts that are not decoded may
// follow; requests carry a number and are answered in any order; "wait" is answered when the task ends.
//
// Goroutines of the supervisor: one accepts, one or two per connection, one per
// pipe and one per running task, all blocked in the poller.
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

// Spec is what Start needs.
type Spec struct {
	ID     string
	Entry  string // of the companion, which executes the program in its place
	Policy []byte // for the entry, which alone understands it
	Owner  *Owner // nil: the supervisor's user
	Logs   proc.Logs
	Group  *Group   // nil: no control group, tracking by session only
	Join   []string // files of further groups to join, which others made
	Init   bool     // the policy wants a PID namespace of its own
	Users  bool     // and a user namespace around it

	Declared json.RawMessage `json:",omitempty"` // becomes the task's
}

// Owner is the user of the task, whose group may open its stdout and stderr for writing. Supervisors
// of earlier versions use the UID.
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
	if !s.Logs.Disabled && (s.Logs.Root == "" || s.Logs.Name == "" || s.Logs.MaxFiles < 1 || s.Logs.MaxBytes < 1) {
		return fmt.Errorf("task %s: logs need a directory, a name, and at least one file of one byte", s.ID)
	}
	return nil
}
