// Package process is the common part of drivers whose tasks are processes under the supervisor. A
// driver embeds Settings and Tasks. It adds its schema (drivers.Kind), its fingerprint, and a function
// that makes the Program of a task. Everything else is here:
//
//	(none) ──StartTask──▶ running ──exit, StopTask──▶ exited ──DestroyTask──▶ (none)
//	   ▲────RecoverTask──────┘
//
//	StartTask:  Config.Prepare ─▶ Observer.Starting ─▶ supervisor ─▶ Observer.Running
//
// The supervisor has the state; a handle contains only the task's ID and name and the driver's data
// for sessions. A recovered task therefore behaves like a started one.
//
// Sidecars are programs of the client that work for a task. SidecarPolicy derives their policy from
// that of the task, and Tasks.Confine runs them in the task's control group (Groups). Confiner has a
// policy of its own, for drivers without a sandbox. A sidecar is a child of this process and ends with
// it.
//
// Goroutines: one per call of TaskStats or Steady, which ends with its context or the task, and
// those of a session.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// requestPatience is the time limit of requests that the supervisor answers at once.
const requestPatience = 30 * time.Second

// endPatience is how long the supervisor may need to notice the end of a task.
const endPatience = 5 * time.Second

// handleVersion is the version of a handle's State.
const handleVersion = 1

// state is the driver's part of a handle.
type state struct {
	Name       string
	Backend    string // kind of the driver; empty in handles of earlier versions
	MHzPerCore uint64

	Environment Environment // of sessions, in addition to the policy and the control group of the task
	Join        []string    // files of further groups that the task joined
	Kept        map[string]string

	group    proc.Group // control group, which may not exist
	measured proc.Group // control group of the task's processes; empty for none
}

// Config configures the Tasks of an instance of a driver.
type Config struct {
	Name       string // of the instance
	Kind       *drivers.Kind
	Supervisor *supervise.Client
	// Prepare returns the program of a task, and makes the directories of the task ready.
	Prepare  func(cfg *drivers.TaskConfig) (*Program, error)
	Observer Observer // nil: none
}

// Tasks are the running and exited tasks of an instance of a driver. They have the methods of
// drivers.Driver that are the same for all drivers of processes.
type Tasks struct {
	cfg    Config
	groups Groups

	mu   sync.Mutex
	byID map[string]state
}

// NewTasks returns the Tasks of an instance, without any task.
func NewTasks(cfg Config) *Tasks {
	if cfg.Observer == nil {
		cfg.Observer = unobserved{}
	}
	return &Tasks{cfg: cfg, byID: map[string]state{}}
}

// Name implements drivers.Driver.
func (ts *Tasks) Name() string { return ts.cfg.Name }

// ConfigSpec implements drivers.Driver.
func (ts *Tasks) ConfigSpec() hcldec.Spec { return ts.cfg.Kind.ConfigSpec }

// TaskSpec implements drivers.Driver.
func (ts *Tasks) TaskSpec() hcldec.Spec { return ts.cfg.Kind.TaskSpec }

func (ts *Tasks) remember(id string, s state) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.byID[id] = s
}

// state returns the driver's data of a task.
func (ts *Tasks) state(id string) (state, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	s, ok := ts.byID[id]
	if !ok {
		return s, drivers.ErrTaskNotFound
	}
	return s, nil
}

// Kept returns the Kept of the program of a task, nil if it is unknown.
func (ts *Tasks) Kept(id string) map[string]string {
	s, err := ts.state(id)
	if err != nil {
		return nil
	}
	return s.Kept
}

// RecoverTask implements drivers.Driver. A handle without State was stored before the start: the
// agent died before it stored the final one.
func (ts *Tasks) RecoverTask(ctx context.Context, h *drivers.TaskHandle) error {
	s, err := ts.decode(h)
	if err != nil {
		return err
	}
	t, err := ts.cfg.Supervisor.Brief(ctx, h.TaskID)
	if err != nil {
		return notFound(err)
	}
	s.group, s.measured = t.Group, t.Group
	ts.remember(h.TaskID, s)
	ts.cfg.Observer.Running(t)
	return nil
}

func (ts *Tasks) decode(h *drivers.TaskHandle) (state, error) {
	var s state
	if h.Driver != ts.cfg.Name {
		return s, fmt.Errorf("handle of task %s is of driver %s, not %s", h.TaskID, h.Driver, ts.cfg.Name)
	}
	if len(h.State) == 0 {
		return s, nil
	}
	if h.Version != handleVersion {
		return s, fmt.Errorf("handle of task %s is of version %d, not %d", h.TaskID, h.Version, handleVersion)
	}
	if err := json.Unmarshal(h.State, &s); err != nil {
		return s, fmt.Errorf("decode handle of task %s: %w", h.TaskID, err)
	}
	if s.Backend != "" && s.Backend != ts.cfg.Kind.Name {
		return s, fmt.Errorf("task %s was started by %s with the backend %q, which is now %q: give it the earlier backend",
			h.TaskID, ts.cfg.Name, s.Backend, ts.cfg.Kind.Name)
	}
	return s, nil
}

// WaitTask implements drivers.Driver.
func (ts *Tasks) WaitTask(ctx context.Context, id string) (*drivers.ExitResult, error) {
	s, err := ts.state(id)
	if err != nil {
		return nil, err
	}
	exit, err := ts.cfg.Supervisor.Wait(ctx, id)
	if err != nil {
		return nil, notFound(err)
	}
	ts.cfg.Observer.Exited(ctx, id)
	return ts.result(exit, s.group), nil
}

// result returns the result of a task. The OOM killer's kills of sidecars are not the task's.
func (ts *Tasks) result(e *proc.Exit, group proc.Group) *drivers.ExitResult {
	r := &drivers.ExitResult{ExitCode: e.Code, Signal: e.Signal, OOMKilled: e.OOMKilled, ForksDenied: e.ForksDenied}
	if e.OOMKills > 0 && e.OOMKills <= ts.groups.killedSidecars(group) {
		r.OOMKilled = false
	}
	if e.Unknown != "" {
		r.Err = errors.New(e.Unknown)
	}
	return r
}

func notFound(err error) error {
	if errors.Is(err, proc.ErrUnknownTask) {
		return drivers.ErrTaskNotFound
	}
	return err
}

// StopTask implements drivers.Driver. The ID suffices: it also stops a task whose handle was not
// recovered.
func (ts *Tasks) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	sig := ts.cfg.Kind.KillSignal
	if signal != "" {
		var err error
		if sig, err = drivers.ParseSignal(signal); err != nil {
			return err
		}
	}
	wctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// A task that cannot be signaled has ended, or is killed below.
	if timeout > 0 && ts.send(wctx, id, sig) == nil {
		if _, err := ts.cfg.Supervisor.Wait(wctx, id); err == nil {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := ts.cfg.Supervisor.Kill(ctx, id); err != nil {
		return notFound(err)
	}
	return nil
}

// SignalTask implements drivers.Driver.
func (ts *Tasks) SignalTask(id, signal string) error {
	if _, err := ts.state(id); err != nil {
		return err
	}
	sig, err := drivers.ParseSignal(signal)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestPatience)
	defer cancel()
	if err := ts.send(ctx, id, sig); err != nil {
		return ts.unsent(ctx, id, err)
	}
	return nil
}

// unsent returns the error for a signal that could not be sent: ErrTaskNotFound if the task has ended. The supervisor has no
// error of its own for that.
func (ts *Tasks) unsent(ctx context.Context, id string, err error) error {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	if _, unknown := ts.cfg.Supervisor.Wait(ctx, id); unknown == nil {
		return drivers.ErrTaskNotFound
	}
	return notFound(err)
}

// send sends a signal to a task, to the processes that the kind of the driver selects.
func (ts *Tasks) send(ctx context.Context, id string, sig syscall.Signal) error {
	if ts.cfg.Kind.SignalsMain {
		return ts.cfg.Supervisor.SignalMain(ctx, id, sig)
	}
	return ts.cfg.Supervisor.Signal(ctx, id, sig)
}

// DestroyTask implements drivers.Driver. The ID suffices, as for StopTask.
func (ts *Tasks) DestroyTask(id string, force bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestPatience)
	defer cancel()
	s, err := ts.state(id)
	if err != nil {
		if _, err := ts.cfg.Supervisor.Brief(ctx, id); err != nil {
			return notFound(err)
		}
	}
	err = ts.cfg.Supervisor.Forget(ctx, id) // most have ended
	if errors.Is(err, proc.ErrRunning) && !force {
		return errors.New("cannot destroy running task")
	}
	if err != nil && force {
		if _, err := ts.cfg.Supervisor.Kill(ctx, id); err != nil && !errors.Is(err, proc.ErrUnknownTask) {
			return err
		}
		err = ts.cfg.Supervisor.Forget(ctx, id)
	}
	if err != nil {
		return err
	}
	ts.groups.forget(s.group)
	ts.mu.Lock()
	delete(ts.byID, id)
	ts.mu.Unlock()
	ts.cfg.Observer.Removed(id)
	return nil
}

// ListTasks implements drivers.Lister. It lists every task of the supervisor.
func (ts *Tasks) ListTasks(ctx context.Context) ([]drivers.TaskStatus, error) {
	known, err := ts.cfg.Supervisor.RecordedTasks(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]drivers.TaskStatus, len(known))
	for i := range known {
		list[i] = drivers.TaskStatus{ID: known[i].ID, State: drivers.TaskRunning, StartedAt: known[i].Started}
		if known[i].Exit != nil {
			list[i].State, list[i].CompletedAt = drivers.TaskExited, known[i].Exit.At
		}
	}
	return list, nil
}

// InspectTask implements drivers.Driver.
func (ts *Tasks) InspectTask(id string) (*drivers.TaskStatus, error) {
	s, err := ts.state(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestPatience)
	defer cancel()
	t, err := ts.cfg.Supervisor.Brief(ctx, id)
	if err != nil {
		return nil, notFound(err)
	}
	st := &drivers.TaskStatus{ID: id, Name: s.Name, State: drivers.TaskRunning, StartedAt: t.Started,
		Attributes: map[string]string{"pid": strconv.Itoa(t.PID)}}
	if t.Exit != nil {
		st.State, st.CompletedAt, st.Exit = drivers.TaskExited, t.Exit.At, ts.result(t.Exit, s.group)
	}
	return st, nil
}
