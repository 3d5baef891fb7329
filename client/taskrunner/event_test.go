package taskrunner

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestEventsKept(t *testing.T) {
	var s nomad.TaskState
	var handedOut []*nomad.TaskEvent
	for i := range 25 {
		addEvent(&s, &nomad.TaskEvent{Type: nomad.TaskDriverMessage, DriverMessage: fmt.Sprint(i)})
		if i == 12 {
			handedOut = s.Events
		}
	}
	if len(s.Events) != 10 || s.Events[0].DriverMessage != "15" || s.Events[9].DriverMessage != "24" {
		t.Errorf("kept %d events from %s, want the last 10", len(s.Events), s.Events[0].DriverMessage)
	}
	if handedOut[0].DriverMessage != "3" || handedOut[9].DriverMessage != "12" {
		t.Error("earlier events changed")
	}
}

// TestEvents_Short checks that no text of an event is long, whatever an error has in it.
func TestEvents_Short(t *testing.T) {
	long := strings.Repeat("é", maxText)
	e := &nomad.TaskEvent{Details: map[string]string{"a": long}}
	v := reflect.ValueOf(e).Elem()
	for _, f := range v.Fields() {
		if f.Kind() == reflect.String {
			f.SetString(long)
		}
	}
	e.Type = nomad.TaskDriverFailure
	addEvent(&nomad.TaskState{}, e)
	texts := maps.Clone(e.Details)
	for f, value := range v.Fields() {
		if value.Kind() == reflect.String {
			texts[f.Name] = value.String()
		}
	}
	for name, text := range texts {
		if len(text) > maxText+len("...") || !utf8.ValidString(text) {
			t.Errorf("%s has %d bytes, want at most %d of valid text", name, len(text), maxText)
		}
	}
}

// TestReportsKept checks that reports about a task do not displace the events of its start.
func TestReportsKept(t *testing.T) {
	var s nomad.TaskState
	addEvent(&s, &nomad.TaskEvent{Type: nomad.TaskStarted})
	for i := range 50 {
		before := s.Events
		last := before[len(before)-1]
		addEvent(&s, &nomad.TaskEvent{Type: nomad.TaskSandboxDenial, DriverMessage: fmt.Sprint(i)})
		if before[len(before)-1] != last {
			t.Fatal("earlier events changed")
		}
	}
	addEvent(&s, &nomad.TaskEvent{Type: nomad.TaskTerminated})
	var got []string
	for _, e := range s.Events {
		got = append(got, e.Type+e.DriverMessage)
	}
	want := []string{nomad.TaskStarted, nomad.TaskSandboxDenial + "47", nomad.TaskSandboxDenial + "48", nomad.TaskSandboxDenial + "49",
		nomad.TaskTerminated}
	if !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}

func TestEventText(t *testing.T) {
	oom := terminatedEvent(&drivers.ExitResult{ExitCode: 137, Signal: 9, OOMKilled: true})
	for _, tc := range []struct {
		event   *nomad.TaskEvent
		display string
		key     string
		value   string
	}{
		{oom, "Exit Code: 137, Signal: 9, OOM Killed", "oom_killed", "true"},
		{oom, "Exit Code: 137, Signal: 9, OOM Killed", "exit_code", "137"},
		{terminatedEvent(&drivers.ExitResult{ExitCode: 2, ForksDenied: 41}), "Exit Code: 2, 41 processes denied by pids_limit",
			"forks_denied", "41"},
		{terminatedEvent(&drivers.ExitResult{}), "Exit Code: 0", "signal", "0"},
		{terminatedEvent(&drivers.ExitResult{}), "Exit Code: 0", "oom_killed", "false"},
		{&nomad.TaskEvent{Type: nomad.TaskKilling, KillTimeout: 5 * time.Second, KillReason: "why"},
			"Killing task: why", "kill_timeout", "5s"},
		{&nomad.TaskEvent{Type: nomad.TaskRestarting, RestartReason: "r", StartDelay: 1500000000},
			"r - Task restarting in 1.5s", "start_delay", "1500000000"},
		{&nomad.TaskEvent{Type: nomad.TaskSiblingFailed, FailedSibling: "db"},
			`Task's sibling "db" failed`, "failed_sibling", "db"},
		{&nomad.TaskEvent{Type: nomad.TaskNotRestarting, RestartReason: "r", FailsTask: true}, "r", "fails_task", "true"},
		{&nomad.TaskEvent{Type: nomad.TaskFailedValidation, ValidationError: "bad"}, "bad", "validation_error", "bad"},
		{&nomad.TaskEvent{Type: nomad.TaskSignaling, TaskSignal: "SIGHUP", TaskSignalReason: "x"},
			"Task being sent signal SIGHUP: x", "task_signal", "SIGHUP"},
	} {
		var s nomad.TaskState
		addEvent(&s, tc.event)
		got := s.Events[0]
		if got.DisplayMessage != tc.display || got.Details[tc.key] != tc.value || got.Time == 0 {
			t.Errorf("%s: %q with %s=%q, want %q with %q", got.Type, got.DisplayMessage, tc.key,
				got.Details[tc.key], tc.display, tc.value)
		}
	}
}

// An event does not repeat the values of secret blocks, which an error of a driver can quote.
func TestEvent_Redacted(t *testing.T) {
	var s record
	s.store, s.changed = discard{}, func() {}
	s.redact = func(text string) string { return strings.ReplaceAll(text, "hunter2", "<secret.a.b>") }
	s.update(func(*nomad.TaskState) {}, &nomad.TaskEvent{Type: nomad.TaskDriverFailure, DriverError: "invalid image hunter2",
		Details: map[string]string{"image": "hunter2"}})
	e := s.snapshot().Events[0]
	if text := fmt.Sprintf("%+v", *e); strings.Contains(text, "hunter2") || e.Details["image"] != "<secret.a.b>" ||
		e.Details["driver_error"] != "invalid image <secret.a.b>" {
		t.Errorf("event = %s", text)
	}
}

// discard stores nothing.
type discard struct{}

func (discard) PutTask(string, string, state.Task) error         { return nil }
func (discard) PutTaskLater(string, string, state.Task) error    { return nil }
func (discard) PutTaskWithNext(string, string, state.Task) error { return nil }
