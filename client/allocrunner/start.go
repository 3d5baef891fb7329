package allocrunner

import (
	"fmt"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/client/taskrunner"
	"github.com/open-nomad/open-nomad/nomad"
)

// Started reports whether an earlier agent has started tasks, or tried to.
func (r *Runner) Started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.stored {
		if t.State != nil || t.Local != nil && t.Local.TaskHandle != nil {
			return true
		}
	}
	return false
}

// Group returns the group of the allocation, as of its first version on this agent.
func (r *Runner) Group() *nomad.TaskGroup { return r.group }

// Stopped is closed when the allocation must stop.
func (r *Runner) Stopped() <-chan struct{} { return r.stopAsked }

// Note adds an event to every task. Before the tasks start, the event is reported with their states, and kept for them. It must
// be called by Run's goroutine.
func (r *Runner) Note(message string) {
	event := func() *nomad.TaskEvent {
		return &nomad.TaskEvent{Type: nomad.TaskHookMessage, Message: message, DisplayMessage: message, Time: time.Now().UnixNano()}
	}
	r.mu.Lock()
	r.notes = append(r.notes, note{event: event()})
	for name, s := range r.states {
		r.states[name] = taskrunner.WithEvent(s, event())
	}
	r.mu.Unlock()
	r.cfg.Update(r.report())
}

// note is an event for a task, or for all tasks if the name is "".
type note struct {
	task  string
	event *nomad.TaskEvent
}

// announce adds an event to a task, or to all tasks if the name is "". Before the tasks start, the event is kept for them.
func (r *Runner) announce(task string, e *nomad.TaskEvent) {
	r.mu.Lock()
	tasks := r.tasks // replaced as a whole, never changed
	if tasks == nil {
		r.notes = append(r.notes, note{task, e})
	}
	r.mu.Unlock()
	for name, t := range tasks {
		if task == "" || task == name {
			t.Emit(e)
		}
	}
}

// AssignUser returns the uid that a task will have, and stores it before files get this owner. A
// restarted agent then reserves it again.
func (r *Runner) AssignUser(task string) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stored := r.stored[task]
	if stored.Local != nil {
		if uid, ok := taskhook.AssignedUser(stored.Local.Hooks); ok {
			return uid, nil
		}
	}
	uid, err := r.cfg.Users.Assign(r.cfg.Alloc.ID)
	if err != nil {
		return 0, fmt.Errorf("assign a user to task %s: %w", task, err)
	}
	stored.Local = &state.LocalState{Hooks: taskhook.UserState(strconv.Itoa(uid))}
	if err := r.cfg.Store.PutTask(r.cfg.Alloc.ID, task, stored); err != nil {
		return 0, fmt.Errorf("store the user of task %s: %w", task, err)
	}
	if r.stored == nil {
		r.stored = map[string]state.Task{}
	}
	r.stored[task] = stored
	return uid, nil
}

// TaskOf returns the task that has, or had, a dynamic uid, "" for other uids.
func (r *Runner) TaskOf(uid int) string {
	tasks, err := r.cfg.Store.Tasks(r.cfg.Alloc.ID)
	if err != nil {
		r.log.Warn("read the users of the tasks", "err", err)
	}
	for name, t := range tasks {
		if t.Local == nil {
			continue
		}
		if got, ok := taskhook.AssignedUser(t.Local.Hooks); ok && got == uid {
			return name
		}
	}
	return ""
}
