package ui

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// script is a task that runs a shell script without a sandbox. args are its "$@".
type script struct {
	task, text string
	args       []string
}

// shell returns a task for each script.
func shell(scripts ...script) []m {
	tasks := make([]m, 0, len(scripts))
	for _, s := range scripts {
		tasks = append(tasks, m{
			"Name":        s.task,
			"Driver":      "raw_exec",
			"Config":      m{"command": "/bin/sh", "args": append([]string{"-c", s.text, "sh"}, s.args...)},
			"KillTimeout": 1e9,
			"Resources":   m{"CPU": 20, "MemoryMB": 20},
		})
	}
	return tasks
}

// jobOf returns a service with one group of tasks.
func jobOf(id string, tasks ...m) m {
	return m{"ID": id, "Type": "service", "Datacenters": []string{"*"}, "TaskGroups": []m{{"Name": "web", "Count": 1, "Tasks": tasks}}}
}

// runJob registers a job of jobOf and returns the ID of its running allocation.
func (h *house) runJob(t *testing.T, id string, tasks ...m) string {
	t.Helper()
	h.call(t, "PUT", "/v1/jobs", m{"Job": jobOf(id, tasks...)}, nil)
	t.Cleanup(func() { h.stopAndWait(t, id) })
	return h.waitAllocs(t, id, "running", 1)[0].ID
}

// runShell is runJob for scripts.
func (h *house) runShell(t *testing.T, id string, scripts ...script) string {
	t.Helper()
	return h.runJob(t, id, shell(scripts...)...)
}

// stopAndWait stops a job and waits until its tasks have ended, so that a repeated test does not find them.
func (h *house) stopAndWait(t *testing.T, id string) {
	t.Helper()
	h.stop(t, id)
	testpace.Until(t, "no allocation of "+id+" is running", func() bool {
		allocs, _, err := h.agent.Client.Jobs().Allocations(id, true, nil)
		return err == nil && !slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool {
			return a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending
		})
	})
}

// stop stops a job.
func (h *house) stop(t *testing.T, id string) {
	t.Helper()
	if _, _, err := h.agent.Client.Jobs().Deregister(id, false, nil); err != nil {
		t.Error(err)
	}
}

// count returns the number of elements that a selector matches and whose text contains a text.
func (p *tab) count(selector, text string) int {
	p.t.Helper()
	return evaluate[int](p, fmt.Sprintf("[...document.querySelectorAll(%q)].filter((e) => e.innerText.includes(%q)).length", selector, text))
}
