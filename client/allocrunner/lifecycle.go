package allocrunner

import "github.com/open-nomad/open-nomad/nomad"

// steps is what is to be done now.
type steps struct {
	start []string                    // tasks whose turn has come
	stop  map[string]*nomad.TaskEvent // tasks that are to end, and why
}

// decide says, from the states of all tasks, which may start and which are to
// end. It is called again after each change; what it said once stays true.
func decide(tasks []*nomad.Task, states map[string]*nomad.TaskState, stopping *nomad.TaskEvent) steps {
	v := survey(tasks, states)
	out := steps{stop: map[string]*nomad.TaskEvent{}}
	for _, t := range tasks {
		if v.turn(t) {
			out.start = append(out.start, t.Name)
		}
		if states[t.Name].State == nomad.TaskStateDead {
			continue
		}
		if why := v.end(t, stopping); why != nil {
			out.stop[t.Name] = why
		}
	}
	return out
}

// view is what decisions look at.
type view struct {
	prestartOver bool // prestart tasks ended well, their sidecars started
	mainStarted  bool // every main task has run
	mainTouched  bool // some main task has run
	mainDead     bool // every main task is over
	failed       string
	leader       string // a leader that still lives
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

// turn says whether a task may start.
func (v *view) turn(t *nomad.Task) bool {
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

// end says why a task that lives is to end, nil when it is not.
func (v *view) end(t *nomad.Task, stopping *nomad.TaskEvent) *nomad.TaskEvent {
	if poststop(t) {
		if v.mainDead && !v.mainTouched {
			return &nomad.TaskEvent{Type: nomad.TaskKilling, KillReason: "the main tasks never ran"}
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
			return nil // the leader goes first
		}
		return nomad.Copy(stopping)
	case v.mainDead && !short(t) && hookOf(t) != "":
		return &nomad.TaskEvent{Type: nomad.TaskMainDead}
	case v.mainDead && short(t) && !v.mainStarted:
		return &nomad.TaskEvent{Type: nomad.TaskMainDead}
	}
	return nil
}

// hookOf is the moment of the lifecycle that the task belongs to, "" for a main task.
func hookOf(t *nomad.Task) string {
	if t.Lifecycle == nil {
		return ""
	}
	return t.Lifecycle.Hook
}

// short says whether the task is one that runs beside the main ones and ends by itself.
func short(t *nomad.Task) bool { return t.Lifecycle != nil && !t.Lifecycle.Sidecar }

func poststop(t *nomad.Task) bool { return hookOf(t) == nomad.TaskLifecycleHookPoststop }
