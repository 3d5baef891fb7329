package servertest

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// BatchJob returns a job that fits on the fake node.
func BatchJob(id string, count int) *nomad.Job {
	return &nomad.Job{ID: id, Name: id, Type: nomad.JobTypeBatch, Datacenters: []string{"*"}, TaskGroups: []*nomad.TaskGroup{{
		Name: "g", Count: count, Tasks: []*nomad.Task{{Name: "t", Driver: "mock_driver", Config: map[string]any{"run_for": "1s"},
			Identities: []*nomad.WorkloadIdentity{{Name: "aws", Audience: []string{"aws"}, File: true, TTL: time.Hour}}}},
	}}}
}

// Register registers a job and fails the test on an error.
func Register(t *testing.T, s *server.Server, job *nomad.Job) message.JobRegisterResponse {
	t.Helper()
	var out message.JobRegisterResponse
	req := &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global"}}
	if err := Retry(t, func(ctx context.Context) error { return s.Call(ctx, "Job.Register", req, &out) }); err != nil {
		t.Fatalf("register %s: %v", job.ID, err)
	}
	return out
}

// JobRequest returns the request to read a job of the default namespace.
func JobRequest(id string) *message.JobSpecificRequest {
	return &message.JobSpecificRequest{JobID: id, QueryOptions: message.QueryOptions{Region: "global"}}
}

// ServiceJob returns a service job of two instances with deployments.
func ServiceJob(id string) *nomad.Job {
	j := BatchJob(id, 2)
	j.Type, j.Update = nomad.JobTypeService, nomad.UpdateStrategy{MaxParallel: 1}
	j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 1, HealthCheck: "task_states", MinHealthyTime: time.Second,
		HealthyDeadline: time.Minute, ProgressDeadline: time.Hour}
	return j
}

// ApplyJob writes a job to the log without validation, as another server may do.
func ApplyJob(t *testing.T, s *server.Server, job *nomad.Job) {
	t.Helper()
	job.Region = "global"
	jobrules.Canonicalize(job)
	eval := &nomad.Evaluation{ID: nomad.NewID(), Namespace: "default", Priority: 50, Type: job.Type, JobID: job.ID,
		TriggeredBy: nomad.EvalTriggerJobRegister, Status: nomad.EvalStatusPending}
	if err := s.Apply(Context(t), message.JobRegisterRequestType, &message.JobRegisterRequest{Job: job, Eval: eval}); err != nil {
		t.Fatal(err)
	}
}
