package httpapi

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) jobRoutes() []web.Route {
	const job = "/v1/job/:job_id"
	return []web.Route{
		{Methods: "GET", Path: "/v1/jobs",
			Handle: web.Read("Job.List", jobList, func(o *message.JobListResponse) (any, error) { return o.Jobs, nil })},
		{Methods: "PUT POST", Path: "/v1/jobs", Call: web.Write("Job.Register", jobRegister, web.Full[message.JobRegisterResponse])},
		{Methods: "PUT POST", Path: "/v1/jobs/parse", Handle: s.jobParse},
		{Methods: "PUT POST", Path: "/v1/jobs/stop",
			Call: web.Write("Job.Deregister", web.Body(jobStop), web.Full[message.JobDeregisterResponse])},
		{Methods: "GET POST", Path: "/v1/jobs/statuses",
			Call: web.Call{Method: "Job.Statuses",
				Handle: web.Read("Job.Statuses", jobStatuses, func(o *message.JobStatusesResponse) (any, error) { return o.Jobs, nil })}},
		{Methods: "PUT POST", Path: "/v1/validate/job", Call: web.Write("Job.Validate", jobValidate, web.Full[message.JobValidateResponse])},
		{Methods: "GET", Path: job, Handle: web.Read("Job.GetJob", jobID, showJob)},
		{Methods: "PUT POST", Path: job, Call: web.Write("Job.Register", jobRegister, web.Full[message.JobRegisterResponse])},
		{Methods: "DELETE", Path: job, Call: web.Write("Job.Deregister", jobDeregister, web.Full[message.JobDeregisterResponse])},
		{Methods: "PUT POST", Path: job + "/evaluate",
			Call: web.Write("Job.Evaluate", web.OptionalBody(jobEvaluate), web.Full[message.JobRegisterResponse])},
		{Methods: "GET", Path: job + "/allocations",
			Handle: web.Read("Job.Allocations", jobID, func(o *message.JobAllocationsResponse) (any, error) { return o.Allocations, nil })},
		{Methods: "GET", Path: job + "/evaluations",
			Handle: web.Read("Job.Evaluations", jobID, func(o *message.JobEvaluationsResponse) (any, error) { return o.Evaluations, nil })},
		{Methods: "GET", Path: job + "/deployments",
			Handle: web.Read("Job.Deployments", jobID, func(o *message.DeploymentListResponse) (any, error) { return o.Deployments, nil })},
		{Methods: "GET", Path: job + "/deployment", Handle: web.Read("Job.LatestDeployment", jobID, latestDeployment)},
		{Methods: "PUT POST", Path: job + "/plan", Call: web.Write("Job.Plan", jobPlan, web.Full[message.JobPlanResponse])},
		{Methods: "GET PUT POST", Path: job + "/explain",
			Call: web.Call{Method: "Job.Explain",
				Handle: web.Read("Job.Explain", jobExplain, func(o *message.JobExplainResponse) (any, error) { return o.Explanation, nil })}},
		{Methods: "GET", Path: job + "/summary",
			Handle: web.Read("Job.Summary", func(r *web.Request, q *message.JobSummaryRequest) error { q.JobID = r.Param; return nil },
				func(o *message.JobSummaryResponse) (any, error) { return web.Found(o.JobSummary, "job not found") })},
		{Methods: "PUT POST", Path: job + "/dispatch",
			Call: web.Write("Job.Dispatch", web.Body(jobDispatch), web.Full[message.JobDispatchResponse])},
		{Methods: "PUT POST", Path: job + "/dispatch/payload",
			Call: web.Write("Job.Dispatch", jobDispatchPayload, web.Full[message.JobDispatchResponse])},
		{Methods: "PUT POST", Path: job + "/periodic/force",
			Call: web.Write("Periodic.Force", periodicForce, web.Full[message.PeriodicForceResponse])},
		{Methods: "GET", Path: job + "/versions",
			Handle: web.Read("Job.GetJobVersions", jobVersions, func(o *message.JobVersionsResponse) (any, error) {
				if len(o.Versions) == 0 {
					return nil, apierror.Errorf(http.StatusNotFound, "job versions not found")
				}
				return o, nil
			})},
		{Methods: "PUT POST", Path: job + "/revert", Call: web.Write("Job.Revert", web.Body(jobRevert), web.Full[message.JobRegisterResponse])},
		{Methods: "PUT POST", Path: job + "/versions/:tag/tag", Call: web.Write("Job.TagVersion", jobTag, web.Full[message.JobTagResponse])},
		{Methods: "DELETE", Path: job + "/versions/:tag/tag", Call: web.Write("Job.TagVersion", jobUntag, web.Full[message.JobTagResponse])},
		{Methods: "PUT POST", Path: job + "/stable", Call: web.Write("Job.Stable", web.Body(jobStable), web.Full[message.JobStabilityResponse])},
		{Methods: "GET", Path: job + "/submission",
			Handle: web.Read("Job.GetJobSubmission", jobSubmission, func(o *message.JobSubmissionResponse) (any, error) {
				return web.Found(o.Submission, "job source not found")
			})},
	}
}

func jobList(r *web.Request, q *message.JobListRequest) error {
	meta, err := r.Flag("meta")
	q.Fields = &nomad.JobStubFields{Meta: meta}
	return err
}

func jobID(r *web.Request, q *message.JobSpecificRequest) error {
	all, err := r.Flag("all")
	q.JobID, q.All = r.Param, all
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
	Job               *api.Job
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
func ownRegion(j *api.Job) string {
	if j.Region == nil || *j.Region == api.GlobalRegion {
		return ""
	}
	return *j.Region
}

// readJob decodes and canonicalizes the job of the body. The namespace is the first one set of:
// query, body, job. The region is the first one set of: body, query, job, agent.
func readJob(r *web.Request, w *message.WriteRequest) (*jobBody, *nomad.Job, error) {
	var b jobBody
	if err := r.Decode(&b); err != nil {
		return nil, nil, err
	}
	if b.Job == nil {
		return nil, nil, apierror.Errorf(http.StatusBadRequest, "Job must be specified")
	}
	if err := boundParts(b.Job); err != nil {
		return nil, nil, err
	}
	for _, ns := range []string{r.Query.Get("namespace"), b.Namespace} {
		if ns != "" {
			b.Job.Namespace = &ns
			break
		}
	}
	w.Region = cmp.Or(b.Region, r.Query.Get("region"), ownRegion(b.Job), r.Region())
	b.Job.Region = &w.Region
	b.Job.Canonicalize()
	w.Namespace = *b.Job.Namespace
	job, err := toJob(b.Job)
	return &b, job, err
}

// readNamedJob is readJob for a job that must have an ID. It must equal the ID in the path, if the
// path has one.
func readNamedJob(r *web.Request, w *message.WriteRequest) (*jobBody, *nomad.Job, error) {
	b, job, err := readJob(r, w)
	switch {
	case err != nil:
		return nil, nil, err
	case job.ID == "":
		return nil, nil, apierror.Errorf(http.StatusBadRequest, "Job must have an ID")
	case r.Param != "" && job.ID != r.Param:
		return nil, nil, apierror.Errorf(http.StatusBadRequest, "Job ID does not match name %q", r.Param)
	}
	return b, job, nil
}

// CanonicalJob returns a job as the routes send it to the servers: within bounds and with defaults
// filled in. It modifies the job.
func CanonicalJob(in *api.Job) (*nomad.Job, error) {
	if err := boundParts(in); err != nil {
		return nil, err
	}
	in.Canonicalize()
	return toJob(in)
}

// maxParts bounds the groups and tasks of a job.
const maxParts = 5_000

// boundParts returns an error if the job has more than maxParts groups and tasks. It runs before
// defaults are filled in.
func boundParts(j *api.Job) error {
	n := len(j.TaskGroups)
	for _, tg := range j.TaskGroups {
		n += len(tg.Tasks)
	}
	if n > maxParts {
		return apierror.Errorf(http.StatusBadRequest, "the job has %d groups and tasks: the limit is %d", n, maxParts)
	}
	return nil
}

// toJob converts a canonical job to the type of the servers. Both types have the same field names.
func toJob(in *api.Job) (*nomad.Job, error) {
	job, err := convert[*nomad.Job](in)
	if err != nil {
		return nil, apierror.Errorf(http.StatusBadRequest, "invalid job: %v", err)
	}
	return job, nil
}

func jobRegister(r *web.Request, q *message.JobRegisterRequest) error {
	b, job, err := readNamedJob(r, &q.WriteRequest)
	if err != nil {
		return err
	}
	if err := checkEvalPriority(int64(b.EvalPriority)); err != nil {
		return err
	}
	q.Job, q.Submission = job, b.Submission
	q.EnforceIndex, q.JobModifyIndex = b.EnforceIndex, b.JobModifyIndex
	q.PreserveCounts, q.PreserveResources = b.PreserveCounts, b.PreserveResources
	q.PolicyOverride, q.EvalPriority = b.PolicyOverride, b.EvalPriority
	return nil
}

func jobPlan(r *web.Request, q *message.JobPlanRequest) error {
	b, job, err := readNamedJob(r, &q.WriteRequest)
	if err != nil {
		return err
	}
	q.Job, q.Diff, q.PolicyOverride = job, b.Diff, b.PolicyOverride
	return nil
}

// jobExplain reads the job of the body, unless the method is GET: then the job is the registered one.
func jobExplain(r *web.Request, q *message.JobExplainRequest) error {
	q.JobID, q.Group, q.Node = r.Param, r.Query.Get("group"), r.Query.Get("node")
	if r.Method == http.MethodGet {
		return nil
	}
	var w message.WriteRequest
	_, job, err := readNamedJob(r, &w)
	if err != nil {
		return err
	}
	q.Job, q.Region, q.Namespace = job, w.Region, w.Namespace
	return nil
}

func jobValidate(r *web.Request, q *message.JobValidateRequest) error {
	_, job, err := readJob(r, &q.WriteRequest)
	q.Job = job
	return err
}

func jobDeregister(r *web.Request, q *message.JobDeregisterRequest) error {
	q.JobID = r.Param
	for name, to := range map[string]*bool{"purge": &q.Purge, "global": &q.Global, "no_shutdown_delay": &q.NoShutdownDelay} {
		v, err := r.Flag(name)
		if err != nil {
			return err
		}
		*to = v
	}
	p, err := r.Number("eval_priority")
	if err != nil {
		return err
	}
	q.EvalPriority = int(p)
	return checkEvalPriority(int64(p))
}

// jobStop completes a request whose body has the ID of the job, which may be too long for a URL.
func jobStop(_ *web.Request, q *message.JobDeregisterRequest) error {
	q.Eval, q.SubmitTime = nil, 0 // set by servers
	return checkEvalPriority(int64(q.EvalPriority))
}

// checkEvalPriority checks the priority of an evaluation. 0 means that of the job.
func checkEvalPriority(p int64) error {
	if p != 0 && (p < nomad.JobMinPriority || p > nomad.JobDefaultMaxPriority) {
		return apierror.Errorf(http.StatusBadRequest, "Eval priority must be between %d and %d, not %d", nomad.JobMinPriority,
			nomad.JobDefaultMaxPriority, p)
	}
	return nil
}

func jobEvaluate(r *web.Request, q *message.JobEvaluateRequest) error {
	return web.SameID("Job", &q.JobID, r.Param)
}

func jobDispatch(r *web.Request, q *message.JobDispatchRequest) error {
	return web.SameID("Job", &q.JobID, r.Param)
}

// jobDispatchPayload reads the body as the raw payload.
func jobDispatchPayload(r *web.Request, q *message.JobDispatchRequest) error {
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return cmp.Or(web.BodyFault(err), err)
	}
	q.JobID, q.Payload = r.Param, payload
	return nil
}

func periodicForce(r *web.Request, q *message.PeriodicForceRequest) error {
	q.JobID = r.Param
	return nil
}

func jobStable(r *web.Request, q *message.JobStabilityRequest) error {
	return web.SameID("Job", &q.JobID, r.Param)
}

func jobRevert(r *web.Request, q *message.JobRevertRequest) error {
	return web.SameID("Job", &q.JobID, r.Param)
}

// jobTag reads the version and the description of a tag from the body, and its name from the path.
func jobTag(r *web.Request, q *message.JobApplyTagRequest) error {
	var b api.TagVersionRequest
	if err := r.Decode(&b); err != nil {
		return err
	}
	q.Version, q.Latest = b.Version, b.Latest
	q.Tag = &nomad.JobVersionTag{Description: b.Description}
	return jobUntag(r, q)
}

// jobUntag reads the job and the tag from the path, which ends with /versions/<tag>/tag.
func jobUntag(r *web.Request, q *message.JobApplyTagRequest) error {
	path := strings.TrimSuffix(r.URL.EscapedPath(), "/tag")
	name, err := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
	if err != nil {
		return apierror.Errorf(http.StatusBadRequest, "invalid tag in the path: %v", err)
	}
	q.JobID, q.Name = r.Param, name
	return nil
}

func jobVersions(r *web.Request, q *message.JobVersionsRequest) error {
	q.JobID, q.DiffTagName = r.Param, r.Query.Get("diff_tag")
	if v := r.Query.Get("diff_version"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return apierror.Errorf(http.StatusBadRequest, "Failed to parse value of %q (%v) as an uint", "diff_version", v)
		}
		q.DiffVersion = &n
	}
	var err error
	q.Diffs, err = r.Flag("diffs")
	return err
}

func jobSubmission(r *web.Request, q *message.JobSubmissionRequest) error {
	v, err := strconv.ParseUint(r.Query.Get("version"), 10, 64)
	if err != nil {
		return apierror.Errorf(http.StatusBadRequest, "Failed to parse value of %q (%v) as an uint64: use ?version=N", "version",
			r.Query.Get("version"))
	}
	q.JobID, q.Version = r.Param, v
	return nil
}

func jobStatuses(r *web.Request, q *message.JobStatusesRequest) error {
	if !r.Query.Has("namespace") {
		q.Namespace = nomad.AllNamespacesSentinel
	}
	var err error
	if q.IncludeChildren, err = r.Flag("include_children"); err != nil || r.Method == http.MethodGet {
		return err
	}
	var b struct {
		Jobs            []nomad.NamespacedID
		IncludeChildren bool
	}
	if err := r.Decode(&b); err != nil {
		return err
	}
	if len(b.Jobs) == 0 {
		return apierror.Errorf(http.StatusBadRequest, "no jobs in request")
	}
	q.Jobs, q.IncludeChildren = b.Jobs, q.IncludeChildren || b.IncludeChildren
	return nil
}

// jobParse converts HCL to the JSON of a job. It runs on this agent. The rights of the caller are
// checked first because parsing is expensive.
func (s *Server) jobParse(r *web.Request) (any, error) {
	return web.ForCallers(acl.InNamespace(r.Namespace(), acl.ParseJob, acl.SubmitJob), s.parseJob)(r)
}

func (s *Server) parseJob(r *web.Request) (any, error) {
	var b api.JobsParseRequest
	if err := r.Decode(&b); err != nil {
		return nil, err
	}
	if b.JobHCL == "" {
		return nil, apierror.Errorf(http.StatusBadRequest, "Job spec is empty")
	}
	out, err := s.cfg.Parse(r.Context(), &b)
	return rawJSON(out), err
}
