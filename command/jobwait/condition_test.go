package jobwait

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func ptr[T any](v T) *T { return &v }

// job returns a job of version 2 with a group g of two allocations.
func job(kind, status string) *api.Job {
	return &api.Job{ID: ptr("web"), Type: &kind, Status: &status, Stop: ptr(false), Version: ptr(uint64(2)),
		TaskGroups: []*api.TaskGroup{{Name: ptr("g"), Count: ptr(2)}}}
}

func with(j *api.Job, edit func(*api.Job)) *api.Job {
	edit(j)
	return j
}

// alloc returns an allocation of version 2.
func alloc(status string) *api.AllocationListStub {
	return &api.AllocationListStub{ID: "5f2c0000-aaaa", TaskGroup: "g", JobVersion: 2, DesiredStatus: "run", ClientStatus: status}
}

func allocs(status ...string) []*api.AllocationListStub {
	var out []*api.AllocationListStub
	for _, s := range status {
		out = append(out, alloc(s))
	}
	return out
}

func evals(status ...string) []*api.Evaluation {
	var out []*api.Evaluation
	for _, s := range status {
		out = append(out, &api.Evaluation{Status: s})
	}
	return out
}

func TestConditions(t *testing.T) {
	deployment := func(status string) *api.Deployment {
		return &api.Deployment{JobVersion: 2, Status: status, StatusDescription: "reason",
			TaskGroups: map[string]*api.DeploymentState{"g": {DesiredTotal: 2, HealthyAllocs: 1}}}
	}
	stop := func(j *api.Job) { j.Stop = ptr(true) }
	replaced := alloc("failed")
	replaced.NextAllocation = "other"
	old := alloc("running")
	old.JobVersion = 1
	leaving := alloc("running")
	leaving.DesiredStatus = "stop"
	failed := alloc("failed")
	failed.TaskStates = map[string]*api.TaskState{"t": {Failed: true,
		Events: []*api.TaskEvent{{Type: "Terminated", ExitCode: 7}, {Type: "Not Restarting"}}}}
	for _, c := range []struct {
		name, of string
		state    state
		want     verdict
		why      string
	}{
		{"deployment runs", "healthy", state{job: job("service", "running"), deployment: deployment("running")}, waiting,
			"1 of 2 allocations healthy: reason"},
		{"deployment succeeded", "healthy", state{job: job("service", "running"), deployment: deployment("successful")}, reached, ""},
		{"deployment failed", "healthy", state{job: job("service", "running"), deployment: deployment("failed")}, impossible, "failed: reason"},
		{"failed and reverted", "healthy",
			state{job: with(job("service", "running"), func(j *api.Job) { j.Version = ptr(uint64(3)) }), deployment: deployment("failed")},
			impossible, "failed: reason"},
		{"deployment of a stopped job", "healthy", state{job: with(job("service", "dead"), stop), deployment: deployment("running")},
			impossible, "stopped"},
		{"no deployment yet", "healthy", state{job: job("service", "running"), evals: evals("pending"), allocs: allocs("running", "running")},
			waiting, "evaluation is pending"},
		{"no deployment", "healthy", state{job: job("service", "running"), evals: evals("complete"), allocs: allocs("running", "running")},
			reached, "2 of 2"},
		{"version replaced", "healthy", state{job: with(job("service", "running"), func(j *api.Job) { j.Version = ptr(uint64(3)) })},
			impossible, "replaced by version 3"},

		{"one of two", "running", state{job: job("service", "running"), allocs: allocs("running", "pending")}, waiting, "1 of 2"},
		{"old and leaving ones", "running", state{job: job("service", "running"), allocs: append(allocs("running"), old, leaving, replaced)},
			waiting, "1 of 2"},
		{"both", "running", state{job: job("service", "running"), allocs: allocs("running", "running")}, reached, "2 of 2"},
		{"no capacity", "running", state{job: job("service", "running"), evals: evals("blocked"), allocs: allocs("running")}, waiting,
			"no capacity"},
		{"count of zero", "running", state{job: with(job("service", "dead"), func(j *api.Job) { j.TaskGroups[0].Count = ptr(0) })},
			reached, "0 of 0"},
		{"stopped", "running", state{job: with(job("service", "running"), stop)}, impossible, "stopped"},
		{"purged", "running", state{}, impossible, "purged"},
		{"batch failed", "running", state{job: job("batch", "dead"), allocs: []*api.AllocationListStub{failed}}, impossible,
			`task "t" exit code 7`},
		{"system, two nodes", "running", state{job: job("system", "running"), allocs: allocs("running", "running", "pending")}, waiting,
			"2 of 3"},
		{"system, no node", "running", state{job: job("system", "running")}, waiting, "0 of 1"},
		{"system", "running", state{job: job("system", "running"), allocs: allocs("running", "running", "running")}, reached, "3 of 3"},

		{"batch runs", "complete", state{job: job("batch", "running"), allocs: allocs("running", "complete")}, waiting, "1 of 2"},
		{"batch will be rescheduled", "complete",
			state{job: job("batch", "dead"), evals: evals("pending"), allocs: allocs("failed", "complete")}, waiting, "1 failed"},
		{"batch complete", "complete", state{job: job("batch", "dead"), allocs: append(allocs("complete", "complete"), replaced)}, reached,
			"2 of 2"},
		{"one failed", "complete", state{job: job("batch", "dead"), allocs: append(allocs("complete"), failed)}, impossible,
			`allocation 5f2c0000 of group "g" is failed (task "t" exit code 7)`},
		{"stopped before its end", "complete", state{job: with(job("batch", "dead"), stop), allocs: allocs("complete", "complete")}, impossible,
			"stopped"},
		{"nothing ran", "complete", state{job: job("batch", "dead")}, impossible, "no allocation"},

		{"job runs", "dead", state{job: job("service", "running"), allocs: allocs("running")}, waiting, "1 allocations not terminal"},
		{"task is stopping", "dead", state{job: with(job("service", "dead"), stop), allocs: []*api.AllocationListStub{leaving}}, waiting,
			"1 allocations"},
		{"over", "dead", state{job: with(job("service", "dead"), stop), allocs: allocs("complete", "failed")}, reached, ""},
		{"gone", "dead", state{}, reached, "purged"},
	} {
		t.Run(c.of+"/"+c.name, func(t *testing.T) {
			got, why := conditions[c.of](&c.state, 2)
			if got != c.want || !strings.Contains(why, c.why) {
				t.Errorf("%s = %d, %q, want %d, %q", c.of, got, why, c.want, c.why)
			}
		})
	}
}
