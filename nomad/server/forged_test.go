package server_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// parentIsServers is part of the error for a submitted job with a ParentID.
const parentIsServers = "only servers set it"

// A job cannot be submitted as the child of another, because it would get its identity.
func TestJobsCannotNameAParent(t *testing.T) {
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
func TestJobsCannotSetServerFields(t *testing.T) {
	g := servertest.StartACL(t, nil)
	job := servertest.BatchJob("b", 1)
	job.Status, job.StatusDescription, job.Stable, job.Version, job.SubmitTime = nomad.JobStatusDead, "x", true, 7, 1
	job.CreateIndex, job.ModifyIndex, job.JobModifyIndex = 1, 1, 1
	job.NomadTokenID, job.DispatchIdempotencyToken, job.VersionTag = "x", "x", &nomad.JobVersionTag{Name: "x"}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	stored := servertest.ReadWith[message.SingleJobResponse](g, g.Root, "Job.GetJob", &message.JobSpecificRequest{JobID: "b"}).Job
	if stored.Status == nomad.JobStatusDead || stored.StatusDescription != "" || stored.Stable || stored.Version != 0 || stored.SubmitTime == 1 ||
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
func TestForgedParentInState(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	g.Must("ACL.UpsertPolicies", &acls.PolicyUpsertRequest{Policies: []*acls.Policy{{Name: "of-victim",
		Rules: `namespace "default" { policy = "read" }`, JobACL: &acls.JobACL{Namespace: "default", JobID: "victim"}}}}, nil)
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
	for id, as := range map[string]string{"evil": "evil", "victim/dispatch-1-a": "victim/dispatch-1-a", "victim/periodic-x": "victim/periodic-x",
		"victim/periodic-1": "victim"} {
		job := servertest.BatchJob(id, 1)
		job.ParentID = "victim"
		unchecked(t, g.Server, job)
		count++
		for _, a := range n.Allocs(count) {
			if a.JobID == id {
				speaks(a, as)
			}
		}
	}
}

// unchecked writes a job to the log without validation, as another server may do.
func unchecked(t *testing.T, s *server.Server, job *nomad.Job) {
	t.Helper()
	job.Region = "global"
	jobrules.Canonicalize(job)
	eval := &nomad.Evaluation{ID: nomad.NewID(), Namespace: "default", Priority: 50, Type: job.Type, JobID: job.ID,
		TriggeredBy: nomad.EvalTriggerJobRegister, Status: nomad.EvalStatusPending}
	if err := s.Apply(servertest.Context(t), nomad.JobRegisterRequestType, &message.JobRegisterRequest{Job: job, Eval: eval}); err != nil {
		t.Fatal(err)
	}
}

// A colon in an ID does not make the subjects of two jobs equal.
func TestSubjectsDiffer(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	subjects := map[string]string{"a:g:t": "global:default:a%3Ag%3At:g:t:default", "a%3Ag": "global:default:a%253Ag:g:t:default",
		"a": "global:default:a:g:t:default"}
	for id := range subjects {
		servertest.Register(t, s, servertest.BatchJob(id, 1))
	}
	for _, a := range n.Allocs(len(subjects)) {
		if got := servertest.Claims(t, a.SignedIdentities["t"])["sub"]; got != subjects[a.JobID] {
			t.Errorf("the subject of %s is %v, want %s", a.JobID, got, subjects[a.JobID])
		}
	}
}

// A node interpolates a service name and changes nothing else of it.
func TestNodeCannotRenameAService(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	job := servertest.BatchJob("b", 1)
	named := func(name string) *nomad.Service {
		return &nomad.Service{Name: name, Provider: "nomad", Identity: &nomad.WorkloadIdentity{Name: "id", Audience: []string{"x"}}}
	}
	job.TaskGroups[0].Services = []*nomad.Service{named("web"), named("api-${NOMAD_ALLOC_INDEX}")}
	unchecked(t, s, job)
	a := n.Allocs(1)[0]
	for _, c := range []struct {
		service, interpolated string
		want                  bool
	}{
		{"web", "", true}, {"web", "web", true}, {"web", "db", false}, {"web", "web-2", false},
		{"api-${NOMAD_ALLOC_INDEX}", "api-0", true}, {"api-${NOMAD_ALLOC_INDEX}", "db", false}, {"api-${NOMAD_ALLOC_INDEX}", "x-api-0", false},
	} {
		var out message.AllocIdentitiesResponse
		n.Must("Alloc.SignIdentities", &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{AuthToken: n.JWT, MinQueryIndex: a.CreateIndex - 1},
			Identities: []*nomad.WorkloadIdentityRequest{{AllocID: a.ID, WIHandle: nomad.WIHandle{IdentityName: "id", WorkloadIdentifier: c.service,
				WorkloadType: nomad.WorkloadTypeService, InterpolatedWorkloadIdentifier: c.interpolated}}}}, &out)
		if got := len(out.SignedIdentities) == 1; got != c.want {
			t.Errorf("service %s as %q: signed %t, want %t", c.service, c.interpolated, got, c.want)
		}
	}
}
