package taskhook

import (
	"errors"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// ErrNotRunning is returned by a Control for operations that need a running task.
var ErrNotRunning = errors.New("task is not running")

// errNoDir is returned by hooks that need the task's directory if it is missing.
var errNoDir = errors.New("the task's directory could not be opened")

// Fault is the error of a hook with the type of the event to emit instead of "Task hook
// failed".
type Fault struct {
	Type string // one of the event types of package nomad
	Err  error
}

// setupFault returns the fault of a start that may succeed later.
func setupFault(err error) error {
	return &Fault{Type: nomad.TaskSetupFailure, Err: &drivers.RecoverableError{Err: err}}
}

// Error returns the text of Err.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Fault) Unwrap() error { return f.Err }

// Event returns the event of the fault.
func (f *Fault) Event() *nomad.TaskEvent {
	e := &nomad.TaskEvent{Type: f.Type}
	switch f.Type {
	case nomad.TaskFailedValidation:
		e.ValidationError = f.Err.Error()
	case nomad.TaskSetupFailure:
		e.SetupError = f.Err.Error()
	case nomad.TaskArtifactDownloadFailed:
		e.DownloadError = f.Err.Error()
	case nomad.TaskKilling:
		e.KillReason, e.FailsTask, e.DisplayMessage = f.Err.Error(), true, f.Err.Error()
	default:
		e.Message = f.Err.Error()
	}
	return e
}
