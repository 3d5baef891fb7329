package exec2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/level"
	"github.com/open-nomad/open-nomad/internal/sandbox/live"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var (
	_ drivers.Sandboxer = (*Driver)(nil)
	_ drivers.Reporter  = (*Driver)(nil)
)

// declared is what the supervisor keeps of a task's start: the policy, and beside its
// fields the limits of the control group.
type declared struct {
	*sandbox.Policy
	Limits *cgroup.Limits `json:",omitempty"`
}

// declare encodes the policy without its environment, and the limits of the control group,
// if there is one.
func declare(p *sandbox.Policy, group *supervise.Group) (json.RawMessage, error) {
	d := declared{Policy: p.Kept()}
	if group != nil {
		d.Limits = &group.Limits
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode what is declared of a task: %w", err)
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
		return nil, fmt.Errorf("task %s was started by an agent that kept no record of its sandbox", id)
	}
	var decl declared
	if err := json.Unmarshal(t.Declared, &decl); err != nil || decl.Policy == nil {
		return nil, fmt.Errorf("read what is declared of task %s: %w", id, errors.Join(err, errors.New("it holds no policy")))
	}
	s := live.Subject{PID: t.PID, Policy: decl.Policy}
	if t.Group != (proc.Group{}) {
		s.Limits, s.Group = decl.Limits, "/"+t.Group.Parent+"/"+t.Group.Name
	}
	layers, err := live.Compare(s)
	// A process that has ended meanwhile looks like one without a sandbox.
	if _, gone := d.alive(ctx, id); gone != nil {
		return nil, gone
	}
	if err != nil {
		return nil, fmt.Errorf("compare the sandbox of task %s: %w", id, err)
	}
	set := d.Current()
	r := &drivers.SandboxReport{PID: t.PID, Level: string(level.Of(set.facts())), Explain: string(d.watch.mode(set.Plugin))}
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
		return nil, drivers.ErrTaskNotFound // it has ended, and the supervisor is about to hear of it
	}
	return t, nil
}

// compare tells what of a task's sandbox is not as declared, once.
func (d *Driver) compare(ctx context.Context, id string, kill bool) {
	r, err := d.Sandbox(ctx, id)
	if err != nil {
		if !errors.Is(err, drivers.ErrTaskNotFound) && ctx.Err() == nil {
			d.log.Warn("sandbox not compared with its policy", "task", id, "err", err)
		}
		return
	}
	if e := mismatch(id, r, kill); d.watch.changed(id, e) && e != nil {
		d.log.Error("the sandbox of a task is not as declared", "task", id, "pid", r.PID, "what", e.Message)
		d.watch.say(e)
	}
}

// changed notes what is to be told of a mismatch, and says whether that is news.
func (w *watch) changed(id string, e *drivers.TaskEvent) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.tasks[id]
	now := ""
	if e != nil {
		now = e.Message
	}
	if !known || last == now {
		return false
	}
	w.tasks[id] = now
	return true
}

// mismatch is the event for what is not as declared, nil when all is.
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
	e.Message = "the live sandbox is not as declared: " + strings.Join(parts, "; ")
	return e
}

// dynamicUID is the uid that only this task has, -1 when others may have it too.
func dynamicUID(user string, acc process.Account) int {
	if acc.UID > 0 && user == fmt.Sprintf("nomad-%d", acc.UID) {
		return int(acc.UID)
	}
	return -1
}
