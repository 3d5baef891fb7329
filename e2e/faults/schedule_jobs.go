//go:build linux

package faults

import (
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// healthyAfter is the minimum healthy time of allocations. It makes drains and updates longer than a fault.
const healthyAfter = 2 * time.Second

func ptr[T any](v T) *T { return &v }

// mockJob returns a job of one task.
func mockJob(id, kind string, count int, config map[string]any) *api.Job {
	return &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{{
		Name: ptr("g"), Count: &count,
		EphemeralDisk: &api.EphemeralDisk{SizeMB: ptr(101)},
		RestartPolicy: &api.RestartPolicy{Attempts: ptr(0), Mode: ptr("fail")},
		Tasks: []*api.Task{{Name: "t", Driver: "mock_driver", Config: config,
			Resources: &api.Resources{CPU: ptr(1), MemoryMB: ptr(10)}}},
	}}}
}

// drainedJob is the service whose nodes are drained.
func drainedJob() *api.Job {
	j := mockJob(drained.Job, "service", drained.Count, map[string]any{"run_for": "1h"})
	j.TaskGroups[0].Update = &api.UpdateStrategy{
		MaxParallel:    ptr(drained.Count),
		HealthCheck:    ptr("task_states"),
		MinHealthyTime: ptr(time.Second),
	}
	j.TaskGroups[0].Migrate = &api.MigrateStrategy{MaxParallel: ptr(drained.MaxParallel), HealthCheck: ptr("task_states"),
		MinHealthyTime: ptr(healthyAfter), HealthyDeadline: ptr(5 * time.Minute)}
	return j
}

// updatedJob is a version of the service with canaries. One that fails is reverted.
func updatedJob(round int, fails bool) *api.Job {
	config := map[string]any{"run_for": "1h"}
	if fails {
		config = map[string]any{"run_for": "1s", "exit_code": 1}
	}
	j := mockJob(updated, "service", 4, config)
	j.Meta = map[string]string{roundKey: strconv.Itoa(round)}
	j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Attempts: ptr(0), Unlimited: ptr(false)}
	j.TaskGroups[0].Update = &api.UpdateStrategy{
		MaxParallel:      ptr(1),
		Canary:           ptr(canaries),
		AutoPromote:      ptr(true),
		AutoRevert:       ptr(true),
		HealthCheck:      ptr("task_states"),
		MinHealthyTime:   ptr(healthyAfter),
		HealthyDeadline:  ptr(20 * time.Second),
		ProgressDeadline: ptr(time.Minute),
	}
	return j
}

// cronJob is a periodic job with a task that ends by itself.
func cronJob(c Cron, runs string) *api.Job {
	j := mockJob(c.Job, "batch", 1, map[string]any{"run_for": runs})
	j.Periodic = &api.PeriodicConfig{Spec: ptr("*/" + strconv.FormatInt(c.Every, 10) + " * * * * * *"), ProhibitOverlap: ptr(c.NoOverlap)}
	return j
}
