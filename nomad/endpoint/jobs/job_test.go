package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestRegister_AllFaults(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	job := servertest.BatchJob("bad id", 1)
	job.TaskGroups[0].Tasks[0].Driver = ""
	err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	servertest.WantError(t, err, 400, "the ID must not contain spaces", "driver")
	var out message.JobValidateResponse
	if err := s.Call(servertest.Context(t), "Job.Validate", &message.JobValidateRequest{Job: job}, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.ValidationErrors) < 2 || out.Error == "" {
		t.Errorf("Job.Validate = %+v, want two faults at least", out)
	}
	if got := servertest.Read[message.JobListResponse](t, s, "Job.List",
		&message.JobListRequest{QueryOptions: servertest.Global}); len(got.Jobs) != 0 {
		t.Error("an invalid job was stored")
	}
}

func TestRegister_Invalid(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.JobMaxCount = 10 })
	for name, c := range map[string]struct {
		change func(*message.JobRegisterRequest)
		want   string
	}{
		"no job":            {func(r *message.JobRegisterRequest) { r.Job = nil }, "missing job"},
		"another namespace": {func(r *message.JobRegisterRequest) { r.Job.Namespace = "apps" }, "nonexistent namespace"},
		"namespaces differ": {func(r *message.JobRegisterRequest) { r.Job.Namespace, r.Namespace = "apps", "default" },
			"mismatched request namespace"},
		"another pool":   {func(r *message.JobRegisterRequest) { r.Job.NodePool = "gpu" }, "nonexistent node pool"},
		"another region": {func(r *message.JobRegisterRequest) { r.Job.Region = "eu" }, "is for region"},
		"priority": {func(r *message.JobRegisterRequest) { r.Job.Priority = 101 },
			"priority is 101: it must be 1 to 100, the job_max_priority"},
		"too many":           {func(r *message.JobRegisterRequest) { r.Job.TaskGroups[0].Count = 11 }, "the limit is 10"},
		"dispatched by hand": {func(r *message.JobRegisterRequest) { r.Job.Dispatched = true }, "dispatch its parent"},
	} {
		t.Run(name, func(t *testing.T) {
			req := &message.JobRegisterRequest{Job: servertest.BatchJob("b", 1)}
			c.change(req)
			servertest.WantError(t, s.Call(servertest.Context(t), "Job.Register", req, nil), 400, c.want)
		})
	}
}

// job_max_priority allows priorities above 100.
func TestRegister_HigherPriority(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.JobMaxPriority = 200 })
	job := servertest.BatchJob("b", 1)
	job.Priority = 200
	if err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: job}, nil); err != nil {
		t.Error(err)
	}
	job.Priority = 201
	servertest.WantError(t, s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: job}, nil), 400, "priority is 201")
}

func TestRegister_Again(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	first := servertest.Register(t, s, servertest.BatchJob("b", 1))
	again := servertest.Register(t, s, servertest.BatchJob("b", 1))
	if again.JobModifyIndex != first.JobModifyIndex || again.EvalID == "" {
		t.Errorf("an unchanged job: index %d after %d, evaluation %q", again.JobModifyIndex, first.JobModifyIndex, again.EvalID)
	}
	changed := servertest.Register(t, s, servertest.BatchJob("b", 2))
	if changed.JobModifyIndex <= first.JobModifyIndex {
		t.Error("a changed job is not a new version")
	}
	versions := servertest.Read[message.JobVersionsResponse](t, s, "Job.GetJobVersions",
		&message.JobVersionsRequest{JobID: "b", Diffs: true, QueryOptions: servertest.Global})
	if len(versions.Versions) != 2 || versions.Versions[0].Version != 1 || len(versions.Diffs) != 1 || len(versions.Diffs[0].TaskGroups) != 1 {
		t.Errorf("Job.GetJobVersions: %d versions, %d diffs", len(versions.Versions), len(versions.Diffs))
	}
	req := &message.JobRegisterRequest{Job: servertest.BatchJob("b", 3), EnforceIndex: true, JobModifyIndex: first.JobModifyIndex}
	err := s.Call(servertest.Context(t), "Job.Register", req, nil)
	servertest.WantError(t, err, 500, nomad.RegisterEnforceIndexErrPrefix)
	if !strings.HasPrefix(err.Error(), nomad.RegisterEnforceIndexErrPrefix) {
		t.Errorf("error = %v, want nothing before it", err)
	}
	none := &message.JobRegisterRequest{Job: servertest.BatchJob("none", 1), EnforceIndex: true, JobModifyIndex: 7}
	servertest.WantError(t, s.Call(servertest.Context(t), "Job.Register", none, nil), 500, "job does not exist")
	req.JobModifyIndex = changed.JobModifyIndex
	if err := s.Call(servertest.Context(t), "Job.Register", req, nil); err != nil {
		t.Errorf("with the right index: %v", err)
	}
	if req.Job.Region != "" || req.Job.NodePool != "" {
		t.Error("the caller's job was modified")
	}
}

func TestDeregister_Job(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	a := n.Allocs(1)[0]
	out := servertest.Read[message.JobDeregisterResponse](t, s, "Job.Deregister", &message.JobDeregisterRequest{JobID: "b"})
	if out.EvalID == "" {
		t.Fatal("Job.Deregister creates no evaluation")
	}
	servertest.Eventually(t, func() bool {
		got := servertest.Read[message.SingleAllocResponse](t, s, "Alloc.GetAlloc",
			&message.AllocSpecificRequest{AllocID: a.ID, QueryOptions: servertest.Global})
		return got.Alloc.DesiredStatus == nomad.AllocDesiredStatusStop
	})
	if got := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("b")); got.Job == nil || !got.Job.Stop {
		t.Error("the job is missing or not stopped")
	}
	servertest.Read[message.JobDeregisterResponse](t, s, "Job.Deregister", &message.JobDeregisterRequest{JobID: "b", Purge: true})
	if got := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("b")); got.Job != nil {
		t.Error("the purged job still exists")
	}
	if out := servertest.Read[message.JobDeregisterResponse](t, s, "Job.Deregister",
		&message.JobDeregisterRequest{JobID: "b"}); out.EvalID != "" {
		t.Error("Job.Deregister of a missing job creates an evaluation")
	}
}

func TestPlan_WritesNothing(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	before := servertest.Read[message.JobListResponse](t, s, "Job.List", &message.JobListRequest{QueryOptions: servertest.Global}).Index
	plan := servertest.Read[message.JobPlanResponse](t, s, "Job.Plan", &message.JobPlanRequest{Job: servertest.BatchJob("b", 3), Diff: true})
	if plan.JobModifyIndex != 0 || plan.Diff == nil || plan.Annotations == nil || plan.Annotations.DesiredTGUpdates["g"].Place != 3 {
		t.Fatalf("Job.Plan = %+v", plan)
	}
	after := servertest.Read[message.JobListResponse](t, s, "Job.List", &message.JobListRequest{QueryOptions: servertest.Global})
	if len(after.Jobs) != 0 || after.Index != before {
		t.Error("Job.Plan wrote something")
	}
	reg := servertest.Register(t, s, servertest.BatchJob("b", 3))
	n.Allocs(3)
	plan = servertest.Read[message.JobPlanResponse](t, s, "Job.Plan", &message.JobPlanRequest{Job: servertest.BatchJob("b", 4), Diff: true})
	if got := plan.Annotations.DesiredTGUpdates["g"]; plan.JobModifyIndex != reg.JobModifyIndex || got.Place != 1 || got.Stop != 0 {
		t.Errorf("Job.Plan for one more = index %d, %+v", plan.JobModifyIndex, got)
	}
	big := servertest.BatchJob("big", 1)
	big.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 100, MemoryMB: 1 << 20}
	if plan = servertest.Read[message.JobPlanResponse](t, s, "Job.Plan", &message.JobPlanRequest{Job: big}); len(plan.FailedTGAllocs) != 1 {
		t.Errorf("Job.Plan of a job that fits nowhere = %+v", plan)
	}
}

func TestDispatch_Job(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	parent := servertest.BatchJob("p", 1)
	parent.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: nomad.DispatchPayloadRequired, MetaRequired: []string{"k"}}
	if reg := servertest.Register(t, s, parent); reg.EvalID != "" {
		t.Error("a parameterized job is evaluated")
	}
	dispatch := func(change func(*message.JobDispatchRequest)) (message.JobDispatchResponse, error) {
		req := &message.JobDispatchRequest{JobID: "p", Payload: []byte("hello"), Meta: map[string]string{"k": "v"}}
		change(req)
		var out message.JobDispatchResponse
		return out, s.Call(servertest.Context(t), "Job.Dispatch", req, &out)
	}
	for name, c := range map[string]struct {
		change func(*message.JobDispatchRequest)
		code   int
	}{
		"no payload":      {func(r *message.JobDispatchRequest) { r.Payload = nil }, 400},
		"large payload":   {func(r *message.JobDispatchRequest) { r.Payload = make([]byte, 16<<10+1) }, 400},
		"missing key":     {func(r *message.JobDispatchRequest) { r.Meta = nil }, 400},
		"unpermitted key": {func(r *message.JobDispatchRequest) { r.Meta["x"] = "y" }, 400},
		"no such job":     {func(r *message.JobDispatchRequest) { r.JobID = "q" }, 404},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dispatch(c.change)
			servertest.WantError(t, err, c.code)
		})
	}
	req := &message.JobDispatchRequest{JobID: "p", Payload: []byte("hello"), Meta: map[string]string{"k": "v"},
		WriteRequest: message.WriteRequest{IdempotencyToken: "once"}}
	first := servertest.Read[message.JobDispatchResponse](t, s, "Job.Dispatch", req)
	again := servertest.Read[message.JobDispatchResponse](t, s, "Job.Dispatch", req)
	if first.EvalID == "" || !strings.HasPrefix(first.DispatchedJobID, "p/dispatch-") || again.DispatchedJobID != first.DispatchedJobID {
		t.Fatalf("Job.Dispatch = %+v, then %+v", first, again)
	}
	a := n.Allocs(1)[0]
	payload, err := snappy.Decode(nil, a.Job.Payload)
	servertest.Equal(t, "error", err, nil)
	servertest.Equal(t, "payload", string(payload), "hello")
	servertest.Equal(t, "meta", a.Job.Meta["k"], "v")
	servertest.Equal(t, "parent", a.Job.ParentID, "p")
}

func TestJobs_Pages(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	for i := range 5 {
		servertest.Register(t, s, servertest.BatchJob(fmt.Sprintf("j%d", i), 1))
	}
	page := func(opts message.QueryOptions) (string, string) {
		out := servertest.Read[message.JobListResponse](t, s, "Job.List", &message.JobListRequest{QueryOptions: opts})
		var ids []string
		for _, j := range out.Jobs {
			ids = append(ids, j.ID)
		}
		return strings.Join(ids, " "), out.NextToken
	}
	for name, c := range map[string]struct {
		opts       message.QueryOptions
		ids, token string
	}{
		"all":           {message.QueryOptions{}, "j0 j1 j2 j3 j4", ""},
		"first page":    {message.QueryOptions{PerPage: 2}, "j0 j1", "default.j2"},
		"second page":   {message.QueryOptions{PerPage: 2, NextToken: "default.j2"}, "j2 j3", "default.j4"},
		"last page":     {message.QueryOptions{PerPage: 2, NextToken: "default.j4"}, "j4", ""},
		"token deleted": {message.QueryOptions{PerPage: 1, NextToken: "default.j11"}, "j2", "default.j3"},
		"backwards":     {message.QueryOptions{PerPage: 2, NextToken: "default.j2", Reverse: true}, "j2 j1", "default.j0"},
		"prefix":        {message.QueryOptions{Prefix: "j3"}, "j3", ""},
		"filter":        {message.QueryOptions{Filter: `ID == "j1" or ID == "j4"`, PerPage: 1}, "j1", "default.j4"},
		"everywhere":    {message.QueryOptions{Namespace: "*", Prefix: "j4"}, "j4", ""},
	} {
		if ids, token := page(c.opts); ids != c.ids || token != c.token {
			t.Errorf("%s: %q and token %q, want %q and %q", name, ids, token, c.ids, c.token)
		}
	}
	servertest.WantError(t, s.Call(servertest.Context(t), "Job.List",
		&message.JobListRequest{QueryOptions: message.QueryOptions{Filter: "=="}}, nil), 400, "filter")
	servertest.WantError(t, s.Call(servertest.Context(t), "Eval.List",
		&message.EvalListRequest{QueryOptions: message.QueryOptions{NextToken: "x"}}, nil), 400, "paginator")
	var all message.EvalListResponse
	servertest.Eventually(t, func() bool { // each job has a complete and a blocked evaluation, because there is no node
		all = servertest.Read[message.EvalListResponse](t, s, "Eval.List", &message.EvalListRequest{})
		return len(all.Evaluations) == 10
	})
	evals := servertest.Read[message.EvalListResponse](t, s, "Eval.List",
		&message.EvalListRequest{QueryOptions: message.QueryOptions{PerPage: 2}})
	rest := servertest.Read[message.EvalListResponse](t, s, "Eval.List",
		&message.EvalListRequest{QueryOptions: message.QueryOptions{NextToken: evals.NextToken}})
	if len(evals.Evaluations) != 2 || len(evals.Evaluations)+len(rest.Evaluations) != len(all.Evaluations) {
		t.Errorf("pages of %d and %d of %d evaluations", len(evals.Evaluations), len(rest.Evaluations), len(all.Evaluations))
	}
}

func TestJobs_BlockingQueries(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	first := servertest.Register(t, s, servertest.BatchJob("a", 1))
	job := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("a"))
	wait := func(ctx context.Context, max time.Duration) (message.SingleJobResponse, error) {
		var out message.SingleJobResponse
		req := servertest.JobRequest("a")
		req.MinQueryIndex, req.MaxQueryTime = job.Index, max
		return out, s.Call(ctx, "Job.GetJob", req, &out)
	}
	if out, err := wait(servertest.Context(t), 5*time.Millisecond); err != nil || out.Index != job.Index {
		t.Errorf("after its time: index %d, %v, want %d", out.Index, err, job.Index)
	}
	ctx, cancel := context.WithCancel(servertest.Context(t))
	cancel()
	if _, err := wait(ctx, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled caller: %v", err)
	}
	done := make(chan message.SingleJobResponse, 1)
	go func() {
		var out message.SingleJobResponse
		req := servertest.JobRequest("a")
		req.MinQueryIndex = job.Index
		s.Call(context.Background(), "Job.GetJob", req, &out)
		done <- out
	}()
	servertest.Register(t, s, servertest.BatchJob("other", 1))
	servertest.Register(t, s, servertest.BatchJob("a", 2))
	if out := <-done; out.Index <= first.JobModifyIndex || out.Job.Version != 1 {
		t.Errorf("the query ends at index %d with version %d", out.Index, out.Job.Version)
	}
}
