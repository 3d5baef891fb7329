package jobs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// refusal is a request that is refused with a text.
type refusal struct {
	name   string
	method string
	req    any
	code   int
	want   string
}

// refusesAll makes each request and compares the complete text of its error.
func refusesAll(t *testing.T, s *server.Server, rows []refusal) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			err := s.Call(servertest.Context(t), r.method, r.req, nil)
			var coded *apierror.Coded
			if !errors.As(err, &coded) || coded.Code != r.code || coded.Message != r.want {
				t.Errorf("%s = %v, want %d %s", r.method, err, r.code, r.want)
			}
		})
	}
}

// anyIndex enforces no index.
const anyIndex = 1 << 40

var inDefault = message.WriteRequest{Namespace: "default"}

// The errors of a dispatch, in the order of their checks: each request would also fail a later one.
func TestDispatch_Invalid(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	parent := func(id, payload string) *nomad.Job {
		j := servertest.BatchJob(id, 1)
		j.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: payload, MetaRequired: []string{"k"}, MetaOptional: []string{"o"}}
		return j
	}
	servertest.Register(t, s, parent("required", nomad.DispatchPayloadRequired))
	servertest.Register(t, s, parent("forbidden", nomad.DispatchPayloadForbidden))
	servertest.Register(t, s, parent("stopped", nomad.DispatchPayloadRequired))
	servertest.Register(t, s, servertest.BatchJob("plain", 0))
	servertest.Read[message.JobDeregisterResponse](t, s, "Job.Deregister",
		&message.JobDeregisterRequest{JobID: "stopped", WriteRequest: inDefault})
	large, unpermitted := make([]byte, 16<<10+1), map[string]string{"x": "", "y": ""}
	dispatch := func(job string, payload []byte, meta map[string]string, priority int) *message.JobDispatchRequest {
		return &message.JobDispatchRequest{JobID: job, Payload: payload, Meta: meta, Priority: priority, WriteRequest: inDefault}
	}
	refusesAll(t, s, []refusal{
		{"no job", "Job.Dispatch", dispatch("none", large, unpermitted, 101), 404, "parameterized job not found"},
		{"not parameterized", "Job.Dispatch", dispatch("plain", large, unpermitted, 101), 400,
			`Specified job "plain" is not a parameterized job`},
		{"stopped", "Job.Dispatch", dispatch("stopped", nil, unpermitted, 101), 400, `Specified job "stopped" is stopped`},
		{"no payload", "Job.Dispatch", dispatch("required", nil, unpermitted, 101), 400,
			"Payload is not provided but required by parameterized job"},
		{"payload", "Job.Dispatch", dispatch("forbidden", large, unpermitted, 101), 400, "Payload provided but forbidden by parameterized job"},
		{"large payload", "Job.Dispatch", dispatch("required", large, unpermitted, 101), 400, "Payload exceeds maximum size; 16385 > 16384"},
		{"unpermitted", "Job.Dispatch", dispatch("forbidden", nil, unpermitted, 101), 400,
			"Dispatch request included unpermitted metadata keys: [x y]"},
		{"missing", "Job.Dispatch", dispatch("forbidden", nil, map[string]string{"o": ""}, 101), 400,
			"Dispatch did not provide required meta keys: [k]"},
		{"priority", "Job.Dispatch", dispatch("forbidden", nil, map[string]string{"k": ""}, 101), 400,
			"dispatch job priority must be between [1, 100]"},
	})
}

// A group is not scaled during a deployment, and one of a system job to 0 or 1 only.
func TestScale_Invalid(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	deployed := servertest.BatchJob("deployed", 2)
	deployed.Type = nomad.JobTypeService
	deployed.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 1, HealthCheck: nomad.UpdateStrategyHealthCheck_TaskStates,
		MinHealthyTime: 1e9, HealthyDeadline: 60e9, ProgressDeadline: 600e9}
	reg := servertest.Register(t, s, deployed) // without a node: the deployment runs
	ended(t, s, reg.EvalID)
	system := servertest.BatchJob("system", 1)
	system.Type = nomad.JobTypeSystem
	servertest.Register(t, s, system)
	scale := func(job string, count int64) *message.JobScaleRequest {
		return &message.JobScaleRequest{JobID: job, Target: map[string]string{"Group": "g"}, Count: &count, WriteRequest: inDefault}
	}
	refusesAll(t, s, []refusal{
		{"deployment", "Job.Scale", scale("deployed", 3), 400, "job scaling blocked due to active deployment"},
		{"system", "Job.Scale", scale("system", 2), 400, `jobs of type "system" can only be scaled between 0 and 1`},
	})
	// The policy of the group limits the count even if it is not enabled.
	off := scalable("off", 2)
	off.TaskGroups[0].Scaling.Enabled = false
	servertest.Register(t, s, off)
	refusesAll(t, s, []refusal{{"policy", "Job.Scale", scale("off", 10), 400, "group count was greater than scaling policy maximum: 10 > 9"}})
	if out := servertest.Read[message.JobRegisterResponse](t, s, "Job.Scale", scale("off", 2)); out.EvalID == "" {
		t.Error("the same count makes no new version")
	}
	if job := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("off")).Job; job.Version != 1 {
		t.Errorf("version %d after scaling to the same count, want 1", job.Version)
	}
}

// ended waits until an evaluation has ended.
func ended(t *testing.T, s *server.Server, id string) {
	t.Helper()
	testpace.Until(t, "the evaluation ends", func() bool {
		e := servertest.Read[message.SingleEvalResponse](t, s, "Eval.GetEval", &message.EvalSpecificRequest{EvalID: id}).Eval
		return e != nil && e.TerminalStatus()
	})
}

// The errors of versions: reverts, tags, and registrations that enforce an index or change the kind of the job.
func TestVersions_Invalid(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	servertest.Register(t, s, servertest.BatchJob("web", 0))
	second := servertest.BatchJob("web", 0)
	second.Priority = 60
	reg := servertest.Register(t, s, second)
	tag := func(name string, version uint64, latest, set bool) *message.JobApplyTagRequest {
		req := &message.JobApplyTagRequest{JobID: "web", Name: name, Version: version, Latest: latest, WriteRequest: inDefault}
		if set {
			req.Tag = &nomad.JobVersionTag{Name: name}
		}
		return req
	}
	servertest.Read[message.JobTagResponse](t, s, "Job.TagVersion", tag("good", 0, false, true))
	revert := func(job string, version uint64, prior *uint64) *message.JobRevertRequest {
		return &message.JobRevertRequest{JobID: job, JobVersion: version, EnforcePriorVersion: prior, WriteRequest: inDefault}
	}
	enforce := func(job string, index uint64, edit func(*nomad.Job)) *message.JobRegisterRequest {
		j := servertest.BatchJob(job, 0)
		edit(j)
		return &message.JobRegisterRequest{Job: j, EnforceIndex: index != anyIndex, JobModifyIndex: index, WriteRequest: inDefault}
	}
	same := func(*nomad.Job) {}
	seven := uint64(7)
	refusesAll(t, s, []refusal{
		{"current", "Job.Revert", revert("web", 1, nil), 400, "can't revert to current version"},
		{"no version", "Job.Revert", revert("web", 9, nil), 404, `job "web" in namespace "default" at version 9 not found`},
		{"prior", "Job.Revert", revert("web", 0, &seven), 400, "Current job has version 1; enforcing version 7"},
		{"no job", "Job.Revert", revert("none", 0, nil), 404, `job "none" not found`},
		{"tag taken", "Job.TagVersion", tag("good", 1, false, true), 400, `tag "good" already exists on a different version of job "web"`},
		{"tag of no version", "Job.TagVersion", tag("other", 9, false, true), 404, `job "web" version 9 not found`},
		{"no tag", "Job.TagVersion", tag("other", 0, false, false), 404, `tag "other" not found on job "web"`},
		{"latest and a version", "Job.TagVersion", tag("other", 1, true, true), 400, "version must be zero when tagging latest, got: 1"},
		{"another index", "Job.Register", enforce("web", 3, same), 500,
			fmt.Sprintf("Enforcing job modify index 3: job exists with conflicting job modify index: %d", reg.JobModifyIndex)},
		{"exists", "Job.Register", enforce("web", 0, same), 500, "Enforcing job modify index 0: job already exists"},
		{"does not exist", "Job.Register", enforce("none", 3, same), 500, "Enforcing job modify index 3: job does not exist"},
		{"type", "Job.Register", enforce("web", anyIndex, func(j *nomad.Job) { j.Type = nomad.JobTypeService }), 400,
			`cannot update job from type "batch" to "service"`},
	})

	// A revert is a copy without tag and stability, as a new version.
	out := servertest.Read[message.JobRegisterResponse](t, s, "Job.Revert", revert("web", 0, nil))
	job := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("web")).Job
	if out.EvalID == "" {
		t.Error("the revert creates no evaluation")
	}
	servertest.Equal(t, "version", job.Version, 2)
	servertest.Equal(t, "priority", job.Priority, 50)
	servertest.Equal(t, "tag", job.VersionTag, nil)
	servertest.Equal(t, "stable", job.Stable, false)
	servertest.Equal(t, "JobModifyIndex", job.JobModifyIndex, out.JobModifyIndex)
}
