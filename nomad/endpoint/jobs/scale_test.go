package jobs_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// scalable returns a batch job with the group g and a policy of 1 to 9.
func scalable(id string, count int) *nomad.Job {
	job := servertest.BatchJob(id, count)
	job.TaskGroups[0].Scaling = &nomad.ScalingPolicy{ID: "from the client", Min: 1, Max: 9, Enabled: true,
		Policy: map[string]any{"cooldown": "1m"}}
	return job
}

func scaleTo(count int64) *message.JobScaleRequest {
	return &message.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Count: &count,
		WriteRequest: message.WriteRequest{Namespace: "default"}}
}

func scaleStatusOf(t *testing.T, s *server.Server, job string) *message.JobScaleStatus {
	t.Helper()
	return servertest.Read[message.JobScaleStatusResponse](t, s, "Job.ScaleStatus", &message.JobScaleStatusRequest{JobID: job,
		QueryOptions: message.QueryOptions{Namespace: "default"}}).JobScaleStatus
}

func TestScale_Job(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	reg := servertest.Register(t, s, scalable("web", 2))
	n.Allocs(2)
	out := servertest.Read[message.JobRegisterResponse](t, s, "Job.Scale", scaleTo(3))
	if out.EvalID == "" || out.JobModifyIndex <= reg.JobModifyIndex || out.Index <= out.JobModifyIndex {
		t.Errorf("Job.Scale = %+v", out)
	}
	n.Allocs(3)
	eval := servertest.Read[message.SingleEvalResponse](t, s, "Eval.GetEval", &message.EvalSpecificRequest{EvalID: out.EvalID}).Eval
	job := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("web")).Job
	if eval.TriggeredBy != "job-scaling" || job.Version != 1 || job.TaskGroups[0].Count != 3 {
		t.Errorf("scaled: evaluation by %q, version %d, count %d", eval.TriggeredBy, job.Version, job.TaskGroups[0].Count)
	}
	// A message changes nothing of the job.
	note := scaleTo(0)
	note.Count, note.Message, note.Error, note.Meta = nil, "no metrics", true, map[string]any{"source": "prometheus", "n": int64(4)}
	if out := servertest.Read[message.JobRegisterResponse](t, s, "Job.Scale", note); out.EvalID != "" ||
		out.JobModifyIndex != job.JobModifyIndex {
		t.Errorf("Job.Scale without a count = %+v", out)
	}
	status := scaleStatusOf(t, s, "web")
	g := status.TaskGroups["g"]
	servertest.Equal(t, "JobStopped", status.JobStopped, false)
	servertest.Equal(t, "JobModifyIndex", status.JobModifyIndex, job.JobModifyIndex)
	servertest.Equal(t, "Desired", g.Desired, 3)
	servertest.Equal(t, "Placed", g.Placed, 3)
	if len(g.Events) != 2 {
		t.Fatalf("%d events, want 2", len(g.Events))
	}
	first, last := g.Events[1], g.Events[0]
	servertest.Equal(t, "count of the first event", *first.Count, 3)
	servertest.Equal(t, "previous count of the first event", first.PreviousCount, 2)
	servertest.Equal(t, "evaluation of the first event", *first.EvalID, out.EvalID)
	servertest.Equal(t, "index of the first event", first.CreateIndex, out.Index)
	if first.Time == 0 {
		t.Error("the first event has no time")
	}
	servertest.Equal(t, "count of the last event", last.Count, nil)
	servertest.Equal(t, "previous count of the last event", last.PreviousCount, 3)
	servertest.Equal(t, "error of the last event", last.Error, true)
	servertest.Equal(t, "message of the last event", last.Message, "no metrics")
	servertest.Equal(t, "evaluation of the last event", last.EvalID, nil)
	servertest.Equal(t, "meta of the last event", fmt.Sprint(last.Meta), "map[n:4 source:prometheus]")
	// Only the newest events are stored.
	for range nomad.JobTrackedScalingEvents {
		servertest.Read[message.JobRegisterResponse](t, s, "Job.Scale", note)
	}
	if events := scaleStatusOf(t, s, "web").TaskGroups["g"].Events; len(events) != nomad.JobTrackedScalingEvents ||
		events[len(events)-1].Count != nil {
		t.Errorf("%d events are stored", len(events))
	}
	servertest.Read[message.JobDeregisterResponse](t, s, "Job.Deregister",
		&message.JobDeregisterRequest{JobID: "web", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}})
	servertest.Register(t, s, scalable("web", 2))
	if events := scaleStatusOf(t, s, "web").TaskGroups["g"].Events; len(events) != 0 {
		t.Errorf("a new job has %d events of the purged one", len(events))
	}
}

// Tasks have policies too. Their IDs are those of the servers, and stay. Without policies, the index of the list is 1.
func TestScale_PoliciesOfTasks(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	list := func() message.ScalingPolicyListResponse {
		return servertest.Read[message.ScalingPolicyListResponse](t, s, "Scaling.ListPolicies", &message.ScalingPolicyListRequest{})
	}
	if out := list(); out.Index != 1 || len(out.Policies) != 0 {
		t.Errorf("without jobs: %+v", out)
	}
	versions := servertest.Read[message.JobVersionsResponse](t, s, "Job.GetJobVersions", &message.JobVersionsRequest{JobID: "none"})
	if versions.Index != 0 || len(versions.Versions) != 0 {
		t.Errorf("versions of a job before any exists: %+v", versions)
	}
	ids := map[string]string{}
	for range 2 {
		job := scalable("web", 2)
		job.TaskGroups[0].Tasks[0].ScalingPolicies = []*nomad.ScalingPolicy{{ID: "mine", Type: "vertical_cpu", Max: 500},
			{ID: "mine", Type: "vertical_mem", Max: 600}}
		servertest.Register(t, s, job)
		out := list()
		if len(out.Policies) != 3 {
			t.Fatalf("policies: %+v", out.Policies)
		}
		for _, p := range out.Policies {
			if before := ids[p.Type]; p.ID == "mine" || before != "" && before != p.ID {
				t.Errorf("policy %s has the ID %s, before %s", p.Type, p.ID, before)
			}
			if task := p.Target["Task"]; (task != "") != strings.HasPrefix(p.Type, "vertical_") {
				t.Errorf("policy %s has the target %v", p.Type, p.Target)
			}
			ids[p.Type] = p.ID
		}
	}
	one := servertest.Read[message.SingleScalingPolicyResponse](t, s, "Scaling.GetPolicy",
		&message.ScalingPolicySpecificRequest{ID: ids["vertical_mem"]}).Policy
	if one == nil || one.Max != 600 {
		t.Errorf("policy = %+v", one)
	}
}

func TestScale_Errors(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.JobMaxCount = 8 })
	servertest.Register(t, s, scalable("web", 2))
	for name, c := range map[string]struct {
		edit func(*message.JobScaleRequest)
		code int
		want string
	}{
		"no job":   {func(r *message.JobScaleRequest) { r.JobID = "none" }, 404, `job "none" not found`},
		"no group": {func(r *message.JobScaleRequest) { r.Target = nil }, 400, "missing task group name for scaling action"},
		"other group": {func(r *message.JobScaleRequest) { r.Target["Group"] = "x" }, 400,
			`task group "x" specified for scaling does not exist in job`},
		"namespace": {func(r *message.JobScaleRequest) { r.Target["Namespace"] = "x" }, 400, "namespace in payload did not match header"},
		"negative":  {func(r *message.JobScaleRequest) { *r.Count = -1 }, 400, "scaling action count can't be negative"},
		"error":     {func(r *message.JobScaleRequest) { r.Error = true }, 400, "scaling action should not contain count if error is true"},
		"below":     {func(r *message.JobScaleRequest) { *r.Count = 0 }, 400, "group count was less than scaling policy minimum: 0 < 1"},
		"above":     {func(r *message.JobScaleRequest) { *r.Count = 10 }, 400, "group count was greater than scaling policy maximum: 10 > 9"},
		"limit":     {func(r *message.JobScaleRequest) { *r.Count = 9 }, 500, "job_max_count"},
		"index": {func(r *message.JobScaleRequest) { r.EnforceIndex, r.JobModifyIndex = true, 1 }, 500,
			"Enforcing job modify index 1: job exists with conflicting"},
		"large":        {func(r *message.JobScaleRequest) { r.Message = strings.Repeat("x", 65<<10) }, 400, "bytes: the limit is 65536"},
		"large number": {func(r *message.JobScaleRequest) { *r.Count = 1 << 40 }, 400, "greater than scaling policy maximum"},
	} {
		t.Run(name, func(t *testing.T) {
			req := scaleTo(3)
			c.edit(req)
			err := s.Call(servertest.Context(t), "Job.Scale", req, nil)
			if !servertest.IsCoded(err, c.code, c.want) {
				t.Errorf("Job.Scale = %v, want %d %q", err, c.code, c.want)
			}
		})
	}
	if status := scaleStatusOf(t, s, "web"); status.TaskGroups["g"].Desired != 2 || len(status.TaskGroups["g"].Events) != 0 {
		t.Errorf("after the errors: %+v", status.TaskGroups["g"])
	}
	if status := scaleStatusOf(t, s, "none"); status != nil {
		t.Errorf("status of a job that does not exist: %+v", status)
	}
}

// Calls at the same time all change the count, one after the other.
func TestScale_Concurrent(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	servertest.Register(t, s, scalable("web", 1))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if err := s.Call(servertest.Context(t), "Job.Scale", scaleTo(int64(2+i)), nil); err != nil {
				t.Errorf("Job.Scale: %v", err)
			}
		})
	}
	all.Wait()
	if got := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("web")).Job.Version; got != 4 {
		t.Errorf("version %d after 4 changes", got)
	}
}

// Dispatches at the same time with one idempotency token create one job.
func TestDispatch_Concurrent(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	parent := scalable("p", 1)
	parent.ParameterizedJob = &nomad.ParameterizedJobConfig{}
	servertest.Register(t, s, parent)
	var all sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		all.Go(func() {
			var out message.JobDispatchResponse
			err := s.Call(servertest.Context(t), "Job.Dispatch", &message.JobDispatchRequest{JobID: "p",
				WriteRequest: message.WriteRequest{Namespace: "default", IdempotencyToken: "once"}}, &out)
			if err != nil {
				t.Errorf("Job.Dispatch: %v", err)
			}
			ids[i] = out.DispatchedJobID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("dispatched %q", ids)
		}
	}
	if jobs := servertest.Read[message.JobListResponse](t, s, "Job.List",
		&message.JobListRequest{QueryOptions: servertest.Global}).Jobs; len(jobs) != 2 {
		t.Errorf("%d jobs", len(jobs))
	}
	if child := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest(ids[0])).Job; child == nil ||
		child.TaskGroups[0].Scaling != nil {
		t.Errorf("the dispatched job has a policy: %+v", child)
	}
	list := servertest.Read[message.ScalingPolicyListResponse](t, s, "Scaling.ListPolicies",
		&message.ScalingPolicyListRequest{QueryOptions: servertest.Global}).Policies
	if len(list) != 1 || list[0].Target[nomad.ScalingTargetJob] != "p" {
		t.Errorf("policies after a dispatch: %+v", list)
	}
}

// The policies of a job are readable by callers with the rights on its namespace.
func TestScale_Rights(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "prod"}}}, nil)
	job := scalable("web", 1)
	job.Namespace = "prod"
	g.Must("Job.Register", &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Namespace: "prod"}}, nil)
	in := func(ns string) message.QueryOptions { return message.QueryOptions{Region: "global", Namespace: ns} }
	all := servertest.ReadWith[message.ScalingPolicyListResponse](g, g.Root, "Scaling.ListPolicies",
		&message.ScalingPolicyListRequest{QueryOptions: in("*")}).Policies
	if len(all) != 1 || all[0].ID == "from the client" || all[0].Target[nomad.ScalingTargetNamespace] != "prod" {
		t.Fatalf("policies %+v", all)
	}
	for name, c := range map[string]struct {
		rules                       string
		lists, reads, status, scale bool
	}{
		"scale":         {`namespace "prod" { policy = "scale" }`, true, true, true, true},
		"read":          {`namespace "prod" { policy = "read" }`, true, true, true, false},
		"list and read": {`namespace "prod" { capabilities = ["list-jobs", "read-job"] }`, true, true, true, false},
		"read-job":      {`namespace "prod" { capabilities = ["read-job"] }`, false, false, true, false},
		"only lists":    {`namespace "prod" { capabilities = ["list-scaling-policies"] }`, true, false, false, false},
		"only reads":    {`namespace "prod" { capabilities = ["read-scaling-policy"] }`, false, true, false, false},
		"only status":   {`namespace "prod" { capabilities = ["read-job-scaling"] }`, false, false, true, false},
		"only scales":   {`namespace "prod" { capabilities = ["scale-job"] }`, false, false, false, true},
		"another's":     {`namespace "default" { policy = "write" }`, false, false, false, false},
		"submits":       {`namespace "prod" { capabilities = ["submit-job"] }`, false, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			token := g.TokenWith(c.rules)
			var list message.ScalingPolicyListResponse
			err := g.Call(token, "Scaling.ListPolicies", &message.ScalingPolicyListRequest{QueryOptions: in("prod")}, &list)
			if (err == nil && len(list.Policies) == 1) != c.lists {
				t.Errorf("Scaling.ListPolicies = %d, %v", len(list.Policies), err)
			}
			list = message.ScalingPolicyListResponse{}
			if err := g.Call(token, "Scaling.ListPolicies", &message.ScalingPolicyListRequest{QueryOptions: in("*")}, &list); err != nil ||
				len(list.Policies) == 1 != c.lists {
				t.Errorf("Scaling.ListPolicies of all namespaces = %d, %v", len(list.Policies), err)
			}
			for _, ns := range []string{"prod", "*"} {
				var one message.SingleScalingPolicyResponse
				err = g.Call(token, "Scaling.GetPolicy", &message.ScalingPolicySpecificRequest{ID: all[0].ID, QueryOptions: in(ns)}, &one)
				if (err == nil && one.Policy != nil) != c.reads {
					t.Errorf("Scaling.GetPolicy in %q = %v, %v", ns, one.Policy, err)
				}
			}
			err = g.Call(token, "Job.ScaleStatus", &message.JobScaleStatusRequest{JobID: "web", QueryOptions: in("prod")},
				&message.JobScaleStatusResponse{})
			if (err == nil) != c.status {
				t.Errorf("Job.ScaleStatus: %v", err)
			}
			note := &message.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Message: "m",
				WriteRequest: message.WriteRequest{Namespace: "prod"}}
			if err := g.Call(token, "Job.Scale", note, nil); (err == nil) != c.scale {
				t.Errorf("Job.Scale: %v", err)
			}
			note.PolicyOverride = true
			if err := g.Call(token, "Job.Scale", note, nil); err == nil {
				t.Error("Job.Scale with an override succeeds")
			}
		})
	}
}
