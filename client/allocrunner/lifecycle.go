package allocrunner

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// steps are the tasks to start and to stop now.
type steps struct {
	start []string                    // tasks that may start
	stop  map[string]*nomad.TaskEvent // tasks to stop, with the reason
}

// decide computes which tasks may start and which must stop, from the states of all tasks. It
// is called again after each change. Earlier results stay valid.
func decide(tasks []*nomad.Task, states map[string]*nomad.TaskState, stopping *nomad.TaskEvent) steps {
	v := survey(tasks, states)
	out := steps{stop: map[string]*nomad.TaskEvent{}}
	for _, t := range tasks {
		if v.mayStart(t) {
			out.start = append(out.start, t.Name)
		}
		if states[t.Name].State == nomad.TaskStateDead {
			continue
		}
		if why := v.stopEvent(t, stopping); why != nil {
			out.stop[t.Name] = why
		}
	}
	return out
}

// view summarises the task states for decide.
type view struct {
	prestartOver bool // prestart tasks succeeded, their sidecars have started
	mainStarted  bool // every main task has started
	mainTouched  bool // some main task has started
	mainDead     bool // every main task is dead
	failed       string
	leader       string // a leader that is not dead
	leaderDead   bool
}

func survey(tasks []*nomad.Task, states map[string]*nomad.TaskState) view {
	v := view{prestartOver: true, mainStarted: true, mainDead: true}
	for _, t := range tasks {
		s := states[t.Name]
		dead, started := s.State == nomad.TaskStateDead, !s.StartedAt.IsZero()
		switch hookOf(t) {
		case nomad.TaskLifecycleHookPrestart:
			ready := dead && !s.Failed
			if t.Lifecycle.Sidecar {
				ready = started
			}
			v.prestartOver = v.prestartOver && ready
		case "":
			v.mainStarted = v.mainStarted && started
			v.mainTouched = v.mainTouched || started
			v.mainDead = v.mainDead && dead
		}
		if dead && s.Failed && !poststop(t) && v.failed == "" {
			v.failed = t.Name
		}
		if t.Leader {
			v.leaderDead = v.leaderDead || dead
			if !dead {
				v.leader = t.Name
			}
		}
	}
	return v
}

// mayStart reports whether the task may start.
func (v *view) mayStart(t *nomad.Task) bool {
	switch hookOf(t) {
	case nomad.TaskLifecycleHookPrestart:
		return true
	case nomad.TaskLifecycleHookPoststart:
		return v.mainStarted
	case nomad.TaskLifecycleHookPoststop:
		return v.mainDead && v.mainTouched
	}
	return v.prestartOver
}

// stopEvent returns why a task must stop, or nil.
func (v *view) stopEvent(t *nomad.Task, stopping *nomad.TaskEvent) *nomad.TaskEvent {
	if poststop(t) {
		if v.mainDead && !v.mainTouched {
			return &nomad.TaskEvent{Type: nomad.TaskKilling, KillReason: "no main task has started"}
		}
		return nil
	}
	switch {
	case v.failed != "":
		return &nomad.TaskEvent{Type: nomad.TaskSiblingFailed, FailedSibling: v.failed}
	case v.leaderDead:
		return &nomad.TaskEvent{Type: nomad.TaskLeaderDead}
	case stopping != nil:
		if v.leader != "" && v.leader != t.Name {
			return nil // the leader is stopped first
		}
		return codec.Copy(stopping)
	case v.mainDead && !nonSidecar(t) && hookOf(t) != "":
		return &nomad.TaskEvent{Type: nomad.TaskMainDead}
	case v.mainDead && nonSidecar(t) && !v.mainStarted:
		return &nomad.TaskEvent{Type: nomad.TaskMainDead}
	}
	return nil
}

// hookOf returns the lifecycle hook of the task, "" for a main task.
func hookOf(t *nomad.Task) string {
	if t.Lifecycle == nil {
		return ""
	}
	return t.Lifecycle.Hook
}

// nonSidecar reports whether the task has a lifecycle hook and is not a sidecar.
func nonSidecar(t *nomad.Task) bool { return t.Lifecycle != nil && !t.Lifecycle.Sidecar }

func poststop(t *nomad.Task) bool { return hookOf(t) == nomad.TaskLifecycleHookPoststop }
