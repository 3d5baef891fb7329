package harness

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
)

// CountingEnded is how many counting jobs end while no agent runs.
const CountingEnded = 5

// CountingID returns the ID of a counting job.
func CountingID(i int) string { return fmt.Sprintf("crash-%d", i) }

// CountingJob counts lines without a gap. The first jobs end with their own exit code when the gate
// exists.
func CountingJob(i int, gate string) *api.Job {
	id, kind, cpu, memory, attempts, mode, unlimited := CountingID(i), "batch", 1, 10, 0, "fail", false
	script := `echo pid $$; n=0; while true; do echo line $n; n=$((n+1)); sleep 0.05; done`
	if i < CountingEnded {
		script = fmt.Sprintf(`echo pid $$; n=0; until [ -e %s ]; do echo line $n; n=$((n+1)); sleep 0.05; done; exit %d`, gate, 10+i)
	}
	return &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{{Name: &id,
		RestartPolicy:    &api.RestartPolicy{Attempts: &attempts, Mode: &mode},
		ReschedulePolicy: &api.ReschedulePolicy{Attempts: &attempts, Unlimited: &unlimited},
		Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Privileged: true, Resources: &api.Resources{CPU: &cpu, MemoryMB: &memory},
			Config: map[string]any{"command": "/bin/sh", "args": []string{"-c", script}}}}}}}
}
