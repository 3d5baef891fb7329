package jobs_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// parentIsServers is part of the error for a submitted job with a ParentID.
const parentIsServers = "only servers set it"

// A job cannot be submitted as the child of another, because it would get its identity.
func TestForged_ParentID(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("victim", 1)}, nil)
	for what, parent := range map[string]string{"another job": "victim", "itself": "evil", "nothing": "gone"} {
		for _, id := range []string{"evil", "victim/dispatch-1-a", "victim/periodic-1"} {
			job := func() *nomad.Job {
				j := servertest.BatchJob(id, 1)
				j.ParentID = parent
				return j
			}
			for method, req := range map[string]rpc.Request{
				"Job.Register": &message.JobRegisterRequest{Job: job()},
				"Job.Plan":     &message.JobPlanRequest{Job: job()},
			} {
				if err := g.Call(g.Root, method, req, nil); !servertest.IsCoded(err, 400, parentIsServers) {
					t.Errorf("%s of %s with the parent %s: %v", method, id, what, err)
				}
			}
			out := servertest.ReadWith[message.JobValidateResponse](g, g.Root, "Job.Validate", &message.JobValidateRequest{Job: job()})
			if !strings.Contains(out.Error, parentIsServers) {
				t.Errorf("Job.Validate of %s with the parent %s: %q", id, what, out.Error)
			}
		}
	}
}

// Fields that the servers set are not taken from a registration.
func TestForged_ServerFields(t *testing.T) {
	g := servertest.StartACL(t, nil)
	job := servertest.BatchJob("b", 1)
	job.Status, job.StatusDescription, job.Stable, job.Version, job.SubmitTime = nomad.JobStatusDead, "x", true, 7, 1
	job.CreateIndex, job.ModifyIndex, job.JobModifyIndex = 1, 1, 1
	job.NomadTokenID, job.DispatchIdempotencyToken, job.VersionTag = "x", "x", &nomad.JobVersionTag{Name: "x"}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	stored := servertest.ReadWith[message.SingleJobResponse](g, g.Root, "Job.GetJob", &message.JobSpecificRequest{JobID: "b"}).Job
	if stored.Status == nomad.JobStatusDead || stored.StatusDescription != "" || stored.Stable || stored.Version != 0 ||
		stored.SubmitTime == 1 ||
		stored.CreateIndex == 1 || stored.ModifyIndex == 1 || stored.JobModifyIndex == 1 ||
		stored.NomadTokenID != "" || stored.DispatchIdempotencyToken != "" || stored.VersionTag != nil {
		t.Errorf("the job set fields of the servers: %+v", stored)
	}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: stored}, nil) // a job that was read may be submitted again
}

// A job in state with a forged parent, written by an older version or an upstream server, has
// its own identity: in new tokens and in those that were signed before. A dispatched job has
// its parent's identity. So has a launch of a periodic job, which the ID and the parent identify:
// only a caller who may also change the parent could make an older version store such a job.
func TestForged_ParentInState(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	g.Must("ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: "of-victim",
		Rules: `namespace "default" { policy = "read" }`, JobACL: &rbac.JobACL{Namespace: "default", JobID: "victim"}}}}, nil)
	g.Must("Variables.Apply", &message.VariablesApplyRequest{Op: "set", Var: servertest.Variable("nomad/jobs/victim", "secret")}, nil)
	parent := servertest.BatchJob("victim", 1)
	parent.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: nomad.DispatchPayloadOptional}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: parent}, nil)

	speaks := func(a *nomad.Allocation, as string) {
		t.Helper()
		token := a.SignedIdentities["t"]
		if claims := servertest.Claims(t, token); claims["nomad_job_id"] != as || !strings.Contains(claims["sub"].(string), ":"+as+":") {
			t.Errorf("%s has the identity of %v, want %s", a.JobID, claims, as)
		}
		err := g.Call(token, "Variables.Read", &message.VariablesReadRequest{Path: "nomad/jobs/victim"}, &message.VariablesReadResponse{})
		if (err == nil) != (as == "victim") {
			t.Errorf("%s reads the variables of victim: %v", a.JobID, err)
		}
		err = g.Call(token, "Job.GetJob", &message.JobSpecificRequest{JobID: "victim"}, &message.SingleJobResponse{})
		if (err == nil) != (as == "victim") {
			t.Errorf("%s has the policy of victim: %v", a.JobID, err)
		}
	}
	g.Must("Job.Dispatch", &message.JobDispatchRequest{JobID: "victim"}, nil)
	speaks(n.Allocs(1)[0], "victim")

	count := 1
	for id, as := range map[string]string{"evil": "evil", "victim/dispatch-1-a": "victim/dispatch-1-a",
		"victim/periodic-x": "victim/periodic-x",
		"victim/periodic-1": "victim"} {
		job := servertest.BatchJob(id, 1)
		job.ParentID = "victim"
		servertest.ApplyJob(t, g.Server, job)
		count++
		for _, a := range n.Allocs(count) {
			if a.JobID == id {
				speaks(a, as)
			}
		}
	}
}
