package taskrunner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// maxEvents is how many events a task keeps.
const maxEvents = 10

// addEvent gives the event its time, details and message, and adds it to the
// state's, dropping the oldest.
func addEvent(s *nomad.TaskState, e *nomad.TaskEvent) {
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	e.Details = details(e)
	if e.DisplayMessage == "" {
		e.DisplayMessage = display(e)
	}
	// A new slice each time: copies of the state that were handed out share the old.
	events := append(fewReports(s.Events, e), e)
	s.Events = events[max(len(events)-maxEvents, 0):]
}

// maxReports is how many of the kept events may be of the sandbox and the logs: they depend on
// what the task does, which must not push out how it began and ended.
const maxReports = 3

// fewReports returns events, without room, and without the oldest report when e is one too
// many of these.
func fewReports(events []*nomad.TaskEvent, e *nomad.TaskEvent) []*nomad.TaskEvent {
	events = events[:len(events):len(events)]
	if !isReport(e) {
		return events
	}
	first, n := -1, 0
	for i, old := range events {
		if isReport(old) {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if n < maxReports {
		return events
	}
	return append(slices.Clip(slices.Clone(events[:first])), events[first+1:]...)
}

// isReport reports whether an event is of the sandbox or the logs.
func isReport(e *nomad.TaskEvent) bool {
	return e.Type == nomad.TaskSandboxDenial || e.Type == nomad.TaskSandboxMismatch || e.Type == nomad.TaskLogs
}

// details is the event as the flat map of compat/task-runtime.tsv.
func details(e *nomad.TaskEvent) map[string]string {
	d := maps.Clone(e.Details)
	if d == nil {
		d = map[string]string{}
	}
	for key, value := range map[string]string{
		"restart_reason": e.RestartReason, "setup_error": e.SetupError, "driver_error": e.DriverError,
		"kill_error": e.KillError, "kill_reason": e.KillReason, "validation_error": e.ValidationError,
		"failed_sibling": e.FailedSibling, "task_signal": e.TaskSignal,
		"task_signal_reason": e.TaskSignalReason, "driver_message": e.DriverMessage, "message": e.Message,
	} {
		if value != "" {
			d[key] = value
		}
	}
	if e.FailsTask {
		d["fails_task"] = "true"
	}
	if e.KillTimeout > 0 {
		d["kill_timeout"] = e.KillTimeout.String()
	}
	if e.StartDelay > 0 {
		d["start_delay"] = strconv.FormatInt(e.StartDelay, 10)
	}
	if e.Type == nomad.TaskTerminated {
		d["exit_code"] = strconv.Itoa(e.ExitCode)
		d["signal"] = strconv.Itoa(e.Signal)
		if d["oom_killed"] == "" {
			d["oom_killed"] = "false"
		}
	}
	return d
}

// fixed are the messages of events that have nothing to add.
var fixed = map[string]string{
	nomad.TaskReceived:                 "client took the task",
	nomad.TaskStarted:                  "task is running",
	nomad.TaskKilled:                   "task was stopped",
	nomad.TaskLeaderDead:               "leader task of the group ended",
	nomad.TaskMainDead:                 "main tasks of the group ended",
	nomad.TaskRunning:                  "task is running",
	nomad.TaskSkippingShutdownDelay:    "not waiting for the shutdown delay",
	nomad.TaskWaitingShuttingDownDelay: "waiting for the shutdown delay before the task is stopped",
}

// display is the event in words.
func display(e *nomad.TaskEvent) string {
	switch e.Type {
	case nomad.TaskTerminated:
		return terminated(e)
	case nomad.TaskKilling:
		return killing(e)
	case nomad.TaskRestarting:
		return fmt.Sprintf("%s: restarting in %s", e.RestartReason, time.Duration(e.StartDelay).Round(time.Millisecond))
	case nomad.TaskSignaling:
		return joined("sending "+e.TaskSignal, e.TaskSignalReason)
	case nomad.TaskSiblingFailed:
		return fmt.Sprintf("task %q of the group failed", e.FailedSibling)
	}
	for _, text := range []string{e.Message, e.DriverError, e.ValidationError, e.SetupError,
		e.RestartReason, e.KillReason, e.DriverMessage} {
		if text != "" {
			return text
		}
	}
	return fixed[e.Type]
}

func terminated(e *nomad.TaskEvent) string {
	parts := []string{fmt.Sprintf("exit code %d", e.ExitCode)}
	if e.Signal != 0 {
		parts = append(parts, fmt.Sprintf("signal %d", e.Signal))
	}
	if e.Details["oom_killed"] == "true" {
		parts = append(parts, "out of memory")
	}
	if n := e.Details["forks_denied"]; n != "" {
		parts = append(parts, n+" processes denied by pids_limit")
	}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	return strings.Join(parts, ", ")
}

func killing(e *nomad.TaskEvent) string {
	switch {
	case e.KillError != "":
		return "stopping failed: " + e.KillError
	case e.KillTimeout > 0:
		return joined(fmt.Sprintf("stopping, killed after %s", e.KillTimeout), e.KillReason)
	}
	return joined("stopping", e.KillReason)
}

func joined(text, why string) string {
	if why == "" {
		return text
	}
	return text + ": " + why
}
