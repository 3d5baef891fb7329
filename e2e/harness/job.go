package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// Run registers a job written in HCL and returns its ID and evaluation.
func Run(t *testing.T, a *cluster.Agent, hcl string) (job, eval string) {
	t.Helper()
	j, err := a.Client.Jobs().ParseHCL(hcl, true)
	if err != nil {
		t.Fatalf("ParseHCL() = %v\n%s", err, hcl)
	}
	var resp *api.JobRegisterResponse
	Acknowledged(t, "Register "+*j.ID, func() (err error) {
		resp, _, err = a.Client.Jobs().Register(j, nil)
		return err
	})
	return *j.ID, resp.EvalID
}

// Evaluated waits for the end of an evaluation.
func Evaluated(t *testing.T, a *cluster.Agent, id string) *api.Evaluation {
	t.Helper()
	var out *api.Evaluation
	Within(t, Patience, "the end of evaluation "+id, func() bool {
		var err error
		out, _, err = a.Client.Evaluations().Info(id, nil)
		return err == nil && out.Status != "pending"
	})
	return out
}

// SmallTask is a group's task that uses few resources and runs until it is stopped.
const SmallTask = `
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }`

// Shell returns a raw_exec task that runs a script.
func Shell(script string, extra ...string) string {
	return fmt.Sprintf(`
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      %s
      resources {
        cpu    = 10
        memory = 10
      }
    }`, strings.ReplaceAll(script, "${", "$${"), strings.Join(extra, "\n"))
}

// Job returns a job with one group.
func Job(id, head, group string) string {
	return fmt.Sprintf("job %q {\n  %s\n  group \"g\" {\n    %s\n  }\n}\n", id, head, group)
}

// CheckBlocked checks the failed placements of an evaluation.
func CheckBlocked(t *testing.T, e *api.Evaluation, want string) {
	t.Helper()
	m := e.FailedTGAllocs["g"]
	switch {
	case want == "" && m == nil && e.BlockedEval == "":
	case want == "":
		t.Errorf("evaluation is blocked by %s: %+v", e.BlockedEval, m)
	case m == nil || e.BlockedEval == "":
		t.Errorf("no failed placement (%v), want %q, blocked %q", e.FailedTGAllocs, want, e.BlockedEval)
	case want == "no nodes":
		if m.NodesEvaluated != 0 {
			t.Errorf("%d nodes evaluated, want none: %v", m.NodesEvaluated, m.NodesAvailable)
		}
	default:
		all := slices.Concat(slices.Collect(maps.Keys(m.ConstraintFiltered)), slices.Collect(maps.Keys(m.DimensionExhausted)))
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("evaluation names %q, want %q", all, want)
		}
	}
}

// PurgeAll stops every job, so that no task outlives its agent.
func PurgeAll(t *testing.T, a *cluster.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience) // the test's context may have ended
	defer cancel()
	if err := a.Purge(ctx); err != nil {
		t.Error(err)
	}
}

// OneTask returns a batch job of one sandboxed task.
func OneTask(id, command string, args ...string) *api.Job {
	kind, cpu, memory, attempts, mode, unlimited := "batch", 100, 128, 0, "fail", false
	return &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{{Name: &id,
		RestartPolicy:    &api.RestartPolicy{Attempts: &attempts, Mode: &mode},
		ReschedulePolicy: &api.ReschedulePolicy{Attempts: &attempts, Unlimited: &unlimited},
		Tasks: []*api.Task{{Name: "t", Driver: "exec2", Resources: &api.Resources{CPU: &cpu, MemoryMB: &memory},
			Config: map[string]any{"command": command, "args": args}}}}}}
}

// RegisterRetry registers a job and retries until it is acknowledged.
func RegisterRetry(t *testing.T, a *cluster.Agent, job *api.Job) {
	t.Helper()
	Acknowledged(t, "Register "+*job.ID, func() error {
		_, _, err := a.Client.Jobs().Register(job, nil)
		return err
	})
}

// Register registers a job and waits until its only allocation has the status.
func Register(t *testing.T, a *cluster.Agent, job *api.Job, status string) *api.AllocationListStub {
	t.Helper()
	RegisterRetry(t, a, job)
	var out *api.AllocationListStub
	Within(t, 30*time.Second, *job.ID+" is "+status, func() bool {
		allocs, _, err := a.Client.Jobs().Allocations(*job.ID, true, nil)
		if err != nil || len(allocs) != 1 {
			return false
		}
		if out = allocs[0]; status != out.ClientStatus && out.ClientStatus == api.AllocClientStatusFailed {
			for _, ev := range out.TaskStates["t"].Events {
				t.Log(ev.Type, ev.DisplayMessage)
			}
			t.Fatalf("%s failed: %s", *job.ID, Log(a, out))
		}
		return out.ClientStatus == status
	})
	return out
}

// Once is the part of a group that disables all retries.
const Once = `
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
`

// Named renames the task of a group.
func Named(name, task string) string {
	return strings.Replace(task, `task "t"`, fmt.Sprintf("task %q", name), 1)
}

// Stop deregisters a job.
func Stop(t *testing.T, a *cluster.Agent, job string) {
	t.Helper()
	if _, _, err := a.Client.Jobs().Deregister(job, false, nil); err != nil {
		t.Fatalf("Deregister(%s) = %v", job, err)
	}
}
