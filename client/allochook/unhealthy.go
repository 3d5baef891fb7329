package allochook

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// maxNamed is the maximum number of checks that an event names.
const maxNamed = 3

// explain adds an event to each task because of which the allocation is not healthy at its deadline.
func (h *healthHook) explain(group *nomad.TaskGroup, limits healthLimits, checks *healthChecks) {
	states := h.tasks.States()
	for _, task := range group.Tasks {
		text := lateTask(task, states[task.Name], limits)
		if text == "" {
			text = checks.late(task.Name, limits, states)
		}
		if text != "" {
			h.tasks.Emit(task.Name, &nomad.TaskEvent{Type: nomad.TaskAllocUnhealthy, Message: text})
		}
	}
}

// lateTask returns why a task was not healthy by the deadline, or "".
func lateTask(task *nomad.Task, s *nomad.TaskState, limits healthLimits) string {
	if s == nil {
		return ""
	}
	result, at := judgeTask(task, s)
	switch {
	case result == down && s.Failed:
		return "Unhealthy because of failed task"
	case result == down:
		return "Unhealthy because of dead task"
	case result == waiting:
		return fmt.Sprintf("Task not running by healthy_deadline of %s", limits.deadline)
	case time.Since(at) < limits.minimum:
		return fmt.Sprintf("Task not running for min_healthy_time of %s by healthy_deadline of %s", limits.minimum, limits.deadline)
	}
	return ""
}

// late returns which checks of a task or its group are not fine at the deadline, or "".
func (c *healthChecks) late(task string, limits healthLimits, states map[string]*nomad.TaskState) string {
	if c.set == nil {
		return ""
	}
	var names []string
	for _, one := range c.set.States(c.alloc) {
		if r := one.Result; blocks(one, states) && (r.Task == "" || r.Task == task) {
			names = append(names, fmt.Sprintf("%s of service %s is %s", r.Check, r.Service, r.Status))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("Checks not healthy by healthy_deadline of %s: %s", limits.deadline, strings.Join(names, ", "))
}
