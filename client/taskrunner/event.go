package taskrunner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
)

// Limits of the events of a task. The servers store them.
const (
	maxEvents = 10      // the number that is kept
	maxText   = 8 << 10 // bytes of each text; an error can contain text of the job or of a program
)

// addEvent sets the event's time, details and message and appends it to the state. It drops the
// oldest event above maxEvents.
func addEvent(s *nomad.TaskState, e *nomad.TaskEvent) {
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	shorten(e)
	e.Details = details(e)
	if e.DisplayMessage == "" {
		e.DisplayMessage = display(e)
	}
	// A new slice: copies of the state share the old one.
	events := append(fewReports(s.Events, e), e)
	s.Events = events[max(len(events)-maxEvents, 0):]
}

// texts returns the texts of an event, except its details.
func texts(e *nomad.TaskEvent) []*string {
	return []*string{&e.Message, &e.DisplayMessage, &e.RestartReason, &e.SetupError, &e.DriverError, &e.KillError, &e.KillReason,
		&e.DownloadError, &e.ValidationError, &e.FailedSibling, &e.VaultError, &e.TaskSignalReason, &e.TaskSignal, &e.DriverMessage,
		&e.GenericSource}
}

// redact removes values of secret blocks from the texts of an event. An error can repeat what a driver or a hook was given.
func redact(e *nomad.TaskEvent, secrets func(string) string) {
	for _, text := range texts(e) {
		*text = secrets(*text)
	}
	e.Details = maps.Clone(e.Details)
	for key, value := range e.Details {
		e.Details[key] = secrets(value)
	}
}

// shorten limits the texts of an event.
func shorten(e *nomad.TaskEvent) {
	for _, text := range texts(e) {
		*text = untrusted.Shorten(*text, maxText)
	}
	e.Details = maps.Clone(e.Details)
	for key, value := range e.Details {
		e.Details[key] = untrusted.Shorten(value, maxText)
	}
}

// maxReports is the maximum number of sandbox, log, download, template and plugin events among the kept ones. A task can
// cause them at will, and they must not displace the events of its start and exit.
const maxReports = 3

// fewReports returns events with no spare capacity. If e is a report above maxReports, the
// oldest report is left out.
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

// isReport reports whether the event is about the sandbox, the logs, templates, the health of a plugin or the progress of a
// download.
func isReport(e *nomad.TaskEvent) bool {
	switch e.Type {
	case nomad.TaskSandboxDenial, nomad.TaskSandboxMismatch, nomad.TaskLogs, nomad.TaskTemplate, nomad.TaskPluginHealthy,
		nomad.TaskPluginUnhealthy:
		return true
	case nomad.TaskDownloadingArtifacts:
		return e.Details["downloaded_bytes"] != "" // the progress of a download
	}
	return false
}

// details returns the event's fields in the keys that Nomad 2.0 uses for Details.
func details(e *nomad.TaskEvent) map[string]string {
	d := e.Details
	if d == nil {
		d = map[string]string{}
	}
	for key, value := range map[string]string{
		"restart_reason": e.RestartReason, "setup_error": e.SetupError, "driver_error": e.DriverError,
		"kill_error": e.KillError, "download_error": e.DownloadError, "kill_reason": e.KillReason, "validation_error": e.ValidationError,
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

// fixed holds the messages of events without details, as in Nomad 2.0.
var fixed = map[string]string{
	nomad.TaskReceived:               "Task received by client",
	nomad.TaskStarted:                "Task started by client",
	nomad.TaskKilled:                 "Task successfully killed",
	nomad.TaskLeaderDead:             "Leader Task in Group dead",
	nomad.TaskMainDead:               "Main tasks in the group died",
	nomad.TaskRunning:                "Task is running",
	nomad.TaskPausing:                "Task is pausing",
	nomad.TaskDownloadingArtifacts:   "Client is downloading artifacts",
	nomad.TaskArtifactDownloadFailed: "Failed to download artifacts",
	nomad.TaskSkippingShutdownDelay:  "Skipping shutdown_delay before killing the task",
}

// display returns the message of an event, as in Nomad 2.0.
func display(e *nomad.TaskEvent) string {
	switch e.Type {
	case nomad.TaskTerminated:
		return terminated(e)
	case nomad.TaskKilling:
		return killing(e)
	case nomad.TaskRestarting:
		text := fmt.Sprintf("Task restarting in %s", time.Duration(e.StartDelay).Round(time.Millisecond))
		if e.RestartReason != "" && e.RestartReason != nomad.ReasonWithinPolicy {
			text = e.RestartReason + " - " + text
		}
		return text
	case nomad.TaskSignaling:
		return joined("Task being sent signal "+e.TaskSignal, e.TaskSignalReason)
	case nomad.TaskSiblingFailed:
		return fmt.Sprintf("Task's sibling %q failed", e.FailedSibling)
	}
	for _, text := range []string{e.Message, e.DriverError, e.ValidationError, e.SetupError, e.DownloadError,
		e.RestartReason, e.KillReason, e.DriverMessage} {
		if text != "" {
			return text
		}
	}
	return fixed[e.Type]
}

func terminated(e *nomad.TaskEvent) string {
	parts := []string{fmt.Sprintf("Exit Code: %d", e.ExitCode)}
	if e.Signal != 0 {
		parts = append(parts, fmt.Sprintf("Signal: %d", e.Signal))
	}
	if e.Details["oom_killed"] == "true" {
		parts = append(parts, "OOM Killed")
	}
	if n := e.Details["forks_denied"]; n != "" {
		parts = append(parts, n+" processes denied by pids_limit")
	}
	if e.Message != "" {
		parts = append(parts, fmt.Sprintf("Exit Message: %q", e.Message))
	}
	return strings.Join(parts, ", ")
}

func killing(e *nomad.TaskEvent) string {
	switch {
	case e.KillError != "":
		return "Failed to kill task: " + e.KillError
	case e.KillReason != "":
		return "Killing task: " + e.KillReason
	case e.KillTimeout > 0:
		return fmt.Sprintf("Sent interrupt. Waiting %s before force killing", e.KillTimeout)
	}
	return "Sent interrupt"
}

// DelayEvent returns the event of a task that waits for a shutdown delay of its own or of its group.
func DelayEvent(delay time.Duration) *nomad.TaskEvent {
	return &nomad.TaskEvent{Type: nomad.TaskWaitingShuttingDownDelay,
		DisplayMessage: fmt.Sprintf("Waiting for shutdown_delay of %s before killing the task.", delay)}
}

func joined(text, why string) string {
	if why == "" {
		return text
	}
	return text + ": " + why
}
