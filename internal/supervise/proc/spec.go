package proc

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// Spec holds the parameters of Start.
type Spec struct {
	ID     string
	Entry  string // companion entry, which executes the program in its place
	Policy []byte // input of the entry, not interpreted here
	Owner  *Owner // nil: the supervisor's user
	Logs   Logs
	Group  *GroupSpec // nil: no control group, tracking by session only
	Join   []string   // files of further, existing groups to join
	Init   bool       // the policy needs a PID namespace
	Users  bool       // and a user namespace around it

	Declared json.RawMessage `json:",omitempty"` // copied to the task
}

// Owner is the user of the task, whose group may open its stdout and stderr for writing.
// Supervisors of earlier versions use the UID.
type Owner struct {
	UID, GID int
}

// GroupSpec is the control group that a start makes.
type GroupSpec struct {
	Group
	Limits cgroup.Limits
}

// Validate checks the parameters of a start.
func (s *Spec) Validate() error {
	if s.ID == "" || s.Entry == "" {
		return errors.New("task without ID or entry")
	}
	return s.ValidateLogs()
}

// ValidateLogs checks what a collection of logs needs.
func (s *Spec) ValidateLogs() error {
	if !s.Logs.Disabled && (s.Logs.Root == "" || s.Logs.Name == "" || s.Logs.MaxFiles < 1 || s.Logs.MaxBytes < 1) {
		return fmt.Errorf("task %s: logs need a directory, a name, and at least one file of one byte", s.ID)
	}
	return nil
}
