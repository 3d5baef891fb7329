package httpapi

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/workload"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) jobRoutes() []route {
	const job = "/v1/job/:job_id"
	return []route{
		{methods: "GET", path: "/v1/jobs", handle: read("Job.List", jobList, func(o *message.JobListResponse) (any, error) { return o.Jobs, nil })},
		{methods: "PUT POST", path: "/v1/jobs", call: write("Job.Register", jobRegister, whole[message.JobRegisterResponse])},
		{methods: "PUT POST", path: "/v1/jobs/parse", handle: s.jobParse},
		{methods: "GET POST", path: "/v1/jobs/statuses", call: call{"Job.Statuses", read("Job.Statuses", jobStatuses, func(o *message.JobStatusesResponse) (any, error) { return o.Jobs, nil })}},
		{methods: "PUT POST", path: "/v1/validate/job", call: write("Job.Validate", jobValidate, whole[message.JobValidateResponse])},
		{methods: "GET", path: job, handle: read("Job.GetJob", jobID, showJob)},
		{methods: "PUT POST", path: job, call: write("Job.Register", jobRegister, whole[message.JobRegisterResponse])},
		{methods: "DELETE", path: job, call: write("Job.Deregister", jobDeregister, whole[message.JobDeregisterResponse])},
		{methods: "PUT POST", path: job + "/evaluate", call: write("Job.Evaluate", optionalBody(jobEvaluate), whole[message.JobRegisterResponse])},
		{methods: "GET", path: job + "/allocations", handle: read("Job.Allocations", jobID, func(o *message.JobAllocationsResponse) (any, error) { return o.Allocations, nil })},
		{methods: "GET", path: job + "/evaluations", handle: read("Job.Evaluations", jobID, func(o *message.JobEvaluationsResponse) (any, error) { return o.Evaluations, nil })},
		{methods: "GET", path: job + "/deployments", handle: read("Job.Deployments", jobID, func(o *message.DeploymentListResponse) (any, error) { return o.Deployments, nil })},
		{methods: "GET", path: job + "/deployment", handle: read("Job.LatestDeployment", jobID, latestDeployment)},
		{methods: "PUT POST", path: job + "/plan", call: write("Job.Plan", jobPlan, whole[message.JobPlanResponse])},
		{methods: "GET", path: job + "/summary", handle: read("Job.Summary", func(r *request, q *message.JobSummaryRequest) error { q.JobID = r.param; return nil },
			func(o *message.JobSummaryResponse) (any, error) { return found(o.JobSummary, "job not found") })},
		{methods: "PUT POST", path: job + "/dispatch", call: write("Job.Dispatch", body(jobDispatch), whole[message.JobDispatchResponse])},
		{methods: "PUT POST", path: job + "/dispatch/payload", call: write("Job.Dispatch", jobDispatchPayload, whole[message.JobDispatchResponse])},
		{methods: "GET", path: job + "/versions", handle: read("Job.GetJobVersions", jobVersions, func(o *message.JobVersionsResponse) (any, error) {
			if len(o.Versions) == 0 {
				return nil, nomad.Errorf(http.StatusNotFound, "job versions not found")
			}
			return o, nil
		})},
		{methods: "PUT POST", path: job + "/stable", call: write("Job.Stable", body(jobStable), whole[message.JobStabilityResponse])},
		{methods: "GET", path: job + "/submission", handle: read("Job.GetJobSubmission", jobSubmission, func(o *message.JobSubmissionResponse) (any, error) {
			return found(o.Submission, "job source not found")
		})},
	}
}

func jobList(r *request, q *message.JobListRequest) error {
	meta, err := r.flag("meta")
	q.Fields = &nomad.JobStubFields{Meta: meta}
	return err
}

func jobID(r *request, q *message.JobSpecificRequest) error {
	all, err := r.flag("all")
	q.JobID, q.All = r.param, all
	return err
}

func latestDeployment(o *message.SingleDeploymentResponse) (any, error) {
	if o.Deployment == nil {
		return json.RawMessage("null"), nil
	}
	return o.Deployment, nil
}

// jobBody is the part of the body that the register, plan and validate routes read. It has no
// fields that only servers may set.
type jobBody struct {
	Job               *workload.Job
	Submission        *nomad.JobSubmission
	EnforceIndex      bool
	JobModifyIndex    uint64
	PreserveCounts    bool
	PreserveResources bool
	PolicyOverride    bool
	EvalPriority      int
	Diff              bool
	Region            string
	Namespace         string
}

// ownRegion returns the region of the job, "" if there is none. Tools write "global" for no region.
func ownRegion(j *workload.Job) string {
	if j.Region == nil || *j.Region == workload.GlobalRegion {
		return ""
	}
	return *j.Region
}

// readJob decodes and canonicalizes the job of the body. The namespace is the first one set of:
// query, body, job. The region is the first one set of: body, query, job, agent.
func (r *request) readJob(w *message.WriteRequest) (*jobBody, *nomad.Job, error) {
	var b jobBody
	if err := r.decode(&b); err != nil {
		return nil, nil, err
	}
	if b.Job == nil {
		return nil, nil, nomad.Errorf(http.StatusBadRequest, "Job must be specified")
	}
	if err := boundParts(b.Job); err != nil {
		return nil, nil, err
	}
	for _, ns := range []string{r.query.Get("namespace"), b.Namespace} {
		if ns != "" {
			b.Job.Namespace = &ns
			break
		}
	}
	w.Region = cmp.Or(b.Region, r.query.Get("region"), ownRegion(b.Job), r.server.cfg.Region)
	b.Job.Region = &w.Region
	b.Job.Canonicalize()
	w.Namespace = *b.Job.Namespace
	job, err := toJob(b.Job)
	return &b, job, err
}

// readNamedJob is readJob for a job that must have an ID. It must equal the ID in the path, if the
// path has one.
func (r *request) readNamedJob(w *message.WriteRequest) (*jobBody, *nomad.Job, error) {
	b, job, err := r.readJob(w)
	switch {
	case err != nil:
		return nil, nil, err
	case job.ID == "":
		return nil, nil, nomad.Errorf(http.StatusBadRequest, "Job must have an ID")
	case r.param != "" && job.ID != r.param:
		return nil, nil, nomad.Errorf(http.StatusBadRequest, "Job ID does not match name %q", r.param)
	}
	return b, job, nil
}

// CanonicalJob returns a job as the routes send it to the servers: within bounds and with defaults
// filled in. It modifies the job.
func CanonicalJob(in *workload.Job) (*nomad.Job, error) {
	if err := boundParts(in); err != nil {
		return nil, err
	}
	in.Canonicalize()
	return toJob(in)
}

// toJob converts a canonical job to the type of the servers. Both types have the same field names.
func toJob(in *workload.Job) (*nomad.Job, error) {
	job, err := convert[*nomad.Job](in)
	if err != nil {
		return nil, nomad.Errorf(http.StatusBadRequest, "invalid job: %v", err)
	}
	return job, nil
}

func jobRegister(r *request, q *message.JobRegisterRequest) error {
	b, job, err := r.readNamedJob(&q.WriteRequest)
	if err != nil {
		return err
	}
	if p := b.EvalPriority; p != 0 && (p < nomad.JobMinPriority || p > nomad.JobDefaultMaxPriority) {
		return nomad.Errorf(http.StatusBadRequest, "Eval priority must be between %d and %d, not %d", nomad.JobMinPriority, nomad.JobDefaultMaxPriority, p)
	}
	q.Job, q.Submission = job, b.Submission
	q.EnforceIndex, q.JobModifyIndex = b.EnforceIndex, b.JobModifyIndex
	q.PreserveCounts, q.PreserveResources = b.PreserveCounts, b.PreserveResources
	q.PolicyOverride, q.EvalPriority = b.PolicyOverride, b.EvalPriority
	return nil
}

func jobPlan(r *request, q *message.JobPlanRequest) error {
	b, job, err := r.readNamedJob(&q.WriteRequest)
	if err != nil {
		return err
	}
	q.Job, q.Diff, q.PolicyOverride = job, b.Diff, b.PolicyOverride
	return nil
}

func jobValidate(r *request, q *message.JobValidateRequest) error {
	_, job, err := r.readJob(&q.WriteRequest)
	q.Job = job
	return err
}

func jobDeregister(r *request, q *message.JobDeregisterRequest) error {
	q.JobID = r.param
	for name, to := range map[string]*bool{"purge": &q.Purge, "global": &q.Global, "no_shutdown_delay": &q.NoShutdownDelay} {
		v, err := r.flag(name)
		if err != nil {
			return err
		}
		*to = v
	}
	p, err := r.number("eval_priority")
	q.EvalPriority = int(p)
	return err
}

func jobEvaluate(r *request, q *message.JobEvaluateRequest) error {
	return sameID("Job", &q.JobID, r.param)
}

func jobDispatch(r *request, q *message.JobDispatchRequest) error {
	return sameID("Job", &q.JobID, r.param)
}

// jobDispatchPayload reads the body as the raw payload.
func jobDispatchPayload(r *request, q *message.JobDispatchRequest) error {
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return cmp.Or(bodyFault(err), err)
	}
	q.JobID, q.Payload = r.param, payload
	return nil
}

func jobStable(r *request, q *message.JobStabilityRequest) error {
	return sameID("Job", &q.JobID, r.param)
}

// sameID sets an ID from the path. An ID in the body must be equal.
func sameID(what string, id *string, param string) error {
	if *id != "" && *id != param {
		return nomad.Errorf(http.StatusBadRequest, "%s ID does not match", what)
	}
	*id = param
	return nil
}

func jobVersions(r *request, q *message.JobVersionsRequest) error {
	q.JobID, q.DiffTagName = r.param, r.query.Get("diff_tag")
	if v := r.query.Get("diff_version"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return nomad.Errorf(http.StatusBadRequest, "Failed to parse value of %q (%v) as an uint", "diff_version", v)
		}
		q.DiffVersion = &n
	}
	var err error
	q.Diffs, err = r.flag("diffs")
	return err
}

func jobSubmission(r *request, q *message.JobSubmissionRequest) error {
	v, err := strconv.ParseUint(r.query.Get("version"), 10, 64)
	if err != nil {
		return nomad.Errorf(http.StatusBadRequest, "Failed to parse value of %q (%v) as an uint64: use ?version=N", "version", r.query.Get("version"))
	}
	q.JobID, q.Version = r.param, v
	return nil
}

func jobStatuses(r *request, q *message.JobStatusesRequest) error {
	if !r.query.Has("namespace") {
		q.Namespace = nomad.AllNamespacesSentinel
	}
	var err error
	if q.IncludeChildren, err = r.flag("include_children"); err != nil || r.Method == http.MethodGet {
		return err
	}
	var b struct {
		Jobs            []nomad.NamespacedID
		IncludeChildren bool
	}
	if err := r.decode(&b); err != nil {
		return err
	}
	if len(b.Jobs) == 0 {
		return nomad.Errorf(http.StatusBadRequest, "no jobs in request")
	}
	q.Jobs, q.IncludeChildren = b.Jobs, q.IncludeChildren || b.IncludeChildren
	return nil
}

// jobParse converts HCL to the JSON of a job. It runs on this agent. The rights of the caller are
// checked first because parsing is expensive.
func (s *Server) jobParse(r *request) (any, error) {
	return s.forCallers(acl.InNamespace(r.namespace(), acl.ParseJob, acl.SubmitJob), s.parseJob)(r)
}

func (s *Server) parseJob(r *request) (any, error) {
	var b api.JobsParseRequest
	if err := r.decode(&b); err != nil {
		return nil, err
	}
	if b.JobHCL == "" {
		return nil, nomad.Errorf(http.StatusBadRequest, "Job spec is empty")
	}
	out, err := s.cfg.Parse(r.Context(), &b)
	return rawJSON(out), err
}
