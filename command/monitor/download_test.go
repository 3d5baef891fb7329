package monitor

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestProgressText(t *testing.T) {
	for _, c := range []struct{ have, total, source, want string }{
		{"1048576", "4194304", "https://h/a.tgz", "Downloaded 1 MiB of 4 MiB (25 %) from https://h/a.tgz"},
		{"1536", "", "git::https://h/repo", "Downloaded 1.5 KiB from git::https://h/repo"},
		{"9", "3", "https://h/a", "Downloaded 9 B of 3 B (100 %) from https://h/a"},
		{"1", "0", "s3::https://user:p@ss@h/a?X-Amz-Signature=x#y", "Downloaded 1 B from s3::https://h/a"},
		{"1", "x", "https://h/\x1b[2J", "Downloaded 1 B"},
		{"-1", "4", "https://h/a", "Downloading artifacts"},
		{"1", "", "", "Downloaded 1 B"},
	} {
		got := progressText(map[string]string{"downloaded_bytes": c.have, "total_bytes": c.total, "source": c.source})
		if got != c.want {
			t.Errorf("progressText(%s of %s from %q) = %q, want %q", c.have, c.total, c.source, got, c.want)
		}
	}
}

// Each event is printed once, and only while it is the latest one of a task that has not started.
func TestNewDownloads(t *testing.T) {
	event := func(time int64, details ...string) *api.TaskEvent {
		e := &api.TaskEvent{Type: api.TaskDownloadingArtifacts, Time: time, Details: map[string]string{}}
		for _, d := range details {
			e.Details[d] = "1"
		}
		return e
	}
	state := func(state string, events ...*api.TaskEvent) *api.TaskState {
		return &api.TaskState{State: state, Events: events}
	}
	progress := event(5, "downloaded_bytes")
	allocs := []*api.AllocationListStub{
		{ID: "b", TaskStates: map[string]*api.TaskState{
			"web": state("pending", progress), "old": state("pending", progress, &api.TaskEvent{Type: "Started", Time: 6}),
			"announced": state("pending", event(5, "confined_by")),
			"runs":      state("running", progress), "none": state("pending"), "nil": nil,
		}},
		{ID: "a", TaskStates: map[string]*api.TaskState{"web": state("pending", progress)}}, {ID: "c"},
	}
	shown := map[string]int64{}
	list := func() string {
		out := ""
		for _, d := range newDownloads(allocs, shown) {
			out += fmt.Sprintf("%s/%s@%d ", d.alloc, d.task, d.event.Time)
		}
		return out
	}
	if got := list(); got != "a/web@5 b/web@5 " {
		t.Errorf("first look: %s", got)
	}
	if got := list(); got != "" {
		t.Errorf("without a change: %s", got)
	}
	allocs[1].TaskStates["web"].Events[0] = event(9, "downloaded_bytes")
	if got := list(); got != "a/web@9 " {
		t.Errorf("after a change: %s", got)
	}
}
