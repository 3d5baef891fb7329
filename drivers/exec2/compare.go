package exec2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/live"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var (
	_ drivers.Sandboxer = (*Driver)(nil)
	_ drivers.Reporter  = (*Driver)(nil)
)

// declared is what the supervisor stores about a task's start: the policy and, next to its fields,
// the limits of the control group.
type declared struct {
	*sandbox.Policy
	Limits *cgroup.Limits `json:",omitempty"`
}

// declare encodes the policy without its environment, and the limits of the control group, if there
// is one.
func declare(p *sandbox.Policy, limits *cgroup.Limits) (json.RawMessage, error) {
	raw, err := json.Marshal(declared{Policy: p.Kept(), Limits: limits})
	if err != nil {
		return nil, fmt.Errorf("encode the sandbox policy of a task: %w", err)
	}
	return raw, nil
}

// Sandbox implements drivers.Sandboxer.
func (d *Driver) Sandbox(ctx context.Context, id string) (*drivers.SandboxReport, error) {
	t, err := d.alive(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(t.Declared) == 0 {
		return nil, fmt.Errorf("task %s was started by an agent that did not record its sandbox", id)
	}
	var decl declared
	if err := json.Unmarshal(t.Declared, &decl); err != nil || decl.Policy == nil {
		return nil, fmt.Errorf("read the sandbox policy of task %s: %w", id, errors.Join(err, errors.New("no policy recorded")))
	}
	s := live.Subject{PID: t.PID, Policy: decl.Policy}
	if t.Group != (proc.Group{}) {
		s.Limits, s.Group = decl.Limits, "/"+t.Group.Parent+"/"+t.Group.Name
	}
	layers, err := live.Compare(s)
	// A process that has ended in the meantime is reported like one without a sandbox.
	if _, gone := d.alive(ctx, id); gone != nil {
		return nil, gone
	}
	if err != nil {
		return nil, fmt.Errorf("compare the sandbox of task %s: %w", id, err)
	}
	r := &drivers.SandboxReport{PID: t.PID, Level: d.Current().isolation("").Level().String(), Explain: string(d.watch.mode())}
	for _, l := range layers {
		r.Layers = append(r.Layers, drivers.SandboxLayer(l))
	}
	return r, nil
}

// alive returns a task whose process has not ended.
func (d *Driver) alive(ctx context.Context, id string) (*proc.Task, error) {
	t, err := d.super.Task(ctx, id)
	switch {
	case errors.Is(err, proc.ErrUnknownTask), err == nil && (t.Exit != nil || t.PID == 0):
		return nil, drivers.ErrTaskNotFound
	case err != nil:
		return nil, err
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", t.PID)); err != nil {
		return nil, drivers.ErrTaskNotFound // it has ended, and the supervisor has not noticed yet
	}
	return t, nil
}

// compare reports a new mismatch between a task's sandbox and its policy.
func (d *Driver) compare(ctx context.Context, id string, kill bool) {
	r, err := d.Sandbox(ctx, id)
	if err != nil {
		if !errors.Is(err, drivers.ErrTaskNotFound) && ctx.Err() == nil {
			d.log.Warn("compare the sandbox with its policy", "task", id, "err", err)
		}
		return
	}
	if e := mismatch(id, r, kill); d.watch.changed(id, e) && e != nil {
		d.log.Error("the sandbox of a task does not match its policy", "task", id, "pid", r.PID, "what", e.Message)
		d.watch.emit(e)
	}
}

// changed stores the message of a mismatch, and reports whether it is new.
func (w *watch) changed(id string, e *drivers.TaskEvent) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[id]
	now := ""
	if e != nil {
		now = e.Message
	}
	if t == nil || t.mismatch == now {
		return false
	}
	t.mismatch = now
	return true
}

// mismatch returns the event for layers that do not match, nil if all match.
func mismatch(id string, r *drivers.SandboxReport, kill bool) *drivers.TaskEvent {
	list := r.Mismatches()
	if len(list) == 0 {
		return nil
	}
	e := &drivers.TaskEvent{TaskID: id, Type: mismatchEvent, At: time.Now(), Kill: kill, Details: map[string]string{}}
	var parts []string
	for _, l := range list[:min(len(list), inMessage)] {
		parts = append(parts, fmt.Sprintf("%s is %q, declared %q", l.Name, l.Live, l.Declared))
	}
	if n := len(list) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	for _, l := range list[:min(len(list), 32)] {
		e.Details["mismatch."+l.Name] = l.Live
	}
	e.Message = "the sandbox does not match its policy: " + strings.Join(parts, "; ")
	return e
}
