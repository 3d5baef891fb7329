package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Jobs is the handle for jobs.
type Jobs struct{ client *Client }

// Jobs returns the handle for jobs.
func (c *Client) Jobs() *Jobs { return &Jobs{c} }

var errNoJobID = errors.New("missing job ID")

func jobPath(id, rest string) string { return "/v1/job/" + url.PathEscape(id) + rest }

// Register registers a job.
func (j *Jobs) Register(job *Job, q *WriteOptions) (*JobRegisterResponse, *WriteMeta, error) {
	return j.RegisterOpts(job, nil, q)
}

// EnforceRegister registers a job if its index is modifyIndex. 0 means that the job must
// not exist.
func (j *Jobs) EnforceRegister(job *Job, modifyIndex uint64, q *WriteOptions) (*JobRegisterResponse, *WriteMeta, error) {
	return j.RegisterOpts(job, &RegisterOptions{EnforceIndex: true, ModifyIndex: modifyIndex}, q)
}

// RegisterOpts is Register with options.
func (j *Jobs) RegisterOpts(job *Job, opts *RegisterOptions, q *WriteOptions) (*JobRegisterResponse, *WriteMeta, error) {
	req := &JobRegisterRequest{Job: job}
	if opts != nil {
		req.EnforceIndex = opts.EnforceIndex
		req.JobModifyIndex = opts.ModifyIndex
		req.PolicyOverride = opts.PolicyOverride
		req.PreserveCounts = opts.PreserveCounts
		req.PreserveResources = opts.PreserveResources
		req.EvalPriority = opts.EvalPriority
		req.Submission = opts.Submission
	}
	var out JobRegisterResponse
	meta, err := j.client.put("/v1/jobs", req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// Validate returns the errors and warnings of a job. It does not store the job.
func (j *Jobs) Validate(job *Job, q *WriteOptions) (*JobValidateResponse, *WriteMeta, error) {
	req := &JobValidateRequest{Job: job}
	if q != nil {
		req.WriteRequest = WriteRequest{Region: q.Region}
	}
	var out JobValidateResponse
	meta, err := j.client.put("/v1/validate/job", req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// Plan returns the changes that a registration would make. If diff is set, they include
// the diff to the stored version.
func (j *Jobs) Plan(job *Job, diff bool, q *WriteOptions) (*JobPlanResponse, *WriteMeta, error) {
	return j.PlanOpts(job, &PlanOptions{Diff: diff}, q)
}

// PlanOpts is Plan with options.
func (j *Jobs) PlanOpts(job *Job, opts *PlanOptions, q *WriteOptions) (*JobPlanResponse, *WriteMeta, error) {
	if job == nil || job.ID == nil {
		return nil, nil, errNoJobID
	}
	req := &JobPlanRequest{Job: job}
	if opts != nil {
		req.Diff, req.PolicyOverride = opts.Diff, opts.PolicyOverride
	}
	var out JobPlanResponse
	meta, err := j.client.put(jobPath(*job.ID, "/plan"), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// List lists jobs, sorted by ID.
func (j *Jobs) List(q *QueryOptions) ([]*JobListStub, *QueryMeta, error) {
	return j.ListOptions(nil, q)
}

// PrefixList lists the jobs whose ID begins with prefix.
func (j *Jobs) PrefixList(prefix string) ([]*JobListStub, *QueryMeta, error) {
	return j.List(&QueryOptions{Prefix: prefix})
}

// ListOptions is List with optional fields.
func (j *Jobs) ListOptions(opts *JobListOptions, q *QueryOptions) ([]*JobListStub, *QueryMeta, error) {
	path := "/v1/jobs"
	if opts != nil && opts.Fields != nil {
		path += "?meta=" + strconv.FormatBool(opts.Fields.Meta)
	}
	return get[[]*JobListStub](j.client, path, q)
}

// Statuses lists jobs with their allocations, newest first.
func (j *Jobs) Statuses(req *JobStatusesRequest, q *QueryOptions) ([]*JobStatusesJob, *QueryMeta, error) {
	var out []*JobStatusesJob
	meta, err := j.client.queryBody(call{http.MethodPost, "/v1/jobs/statuses", req, &out}, q)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Info returns a job.
func (j *Jobs) Info(jobID string, q *QueryOptions) (*Job, *QueryMeta, error) {
	return get[*Job](j.client, jobPath(jobID, ""), q)
}

// Versions returns the versions of a job, newest first. If diffs is set, it also returns
// the diff of each version to the previous one.
func (j *Jobs) Versions(jobID string, diffs bool, q *QueryOptions) ([]*Job, []*JobDiff, *QueryMeta, error) {
	return j.VersionsOpts(jobID, &VersionsOptions{Diffs: diffs}, q)
}

// VersionsOpts is Versions with options. They can select the version to compare with, by
// number or tag.
func (j *Jobs) VersionsOpts(jobID string, opts *VersionsOptions, q *QueryOptions) ([]*Job, []*JobDiff, *QueryMeta, error) {
	params := url.Values{}
	if opts != nil {
		params.Set("diffs", strconv.FormatBool(opts.Diffs))
		setIf(params, "diff_tag", opts.DiffTag)
		if opts.DiffVersion != nil {
			params.Set("diff_version", strconv.FormatUint(*opts.DiffVersion, 10))
		}
	}
	var out JobVersionsResponse
	meta, err := j.client.query(jobPath(jobID, "/versions?"+params.Encode()), &out, q)
	if err != nil {
		return nil, nil, nil, err
	}
	return out.Versions, out.Diffs, meta, nil
}

// Submission returns the source that a version of a job was registered from.
func (j *Jobs) Submission(jobID string, version int, q *QueryOptions) (*JobSubmission, *QueryMeta, error) {
	return get[*JobSubmission](j.client, jobPath(jobID, "/submission?version="+strconv.Itoa(version)), q)
}

// Allocations lists the allocations of a job. If all is set, the list includes those of an
// earlier job with the same ID.
func (j *Jobs) Allocations(jobID string, all bool, q *QueryOptions) ([]*AllocationListStub, *QueryMeta, error) {
	return get[[]*AllocationListStub](j.client, jobPath(jobID, "/allocations?all="+strconv.FormatBool(all)), q)
}

// Deployments lists the deployments of a job. If all is set, the list includes those of an
// earlier job with the same ID.
func (j *Jobs) Deployments(jobID string, all bool, q *QueryOptions) ([]*Deployment, *QueryMeta, error) {
	return get[[]*Deployment](j.client, jobPath(jobID, "/deployments?all="+strconv.FormatBool(all)), q)
}

// LatestDeployment returns the newest deployment of a job, or nil if there is none.
func (j *Jobs) LatestDeployment(jobID string, q *QueryOptions) (*Deployment, *QueryMeta, error) {
	return get[*Deployment](j.client, jobPath(jobID, "/deployment"), q)
}

// Evaluations lists the evaluations of a job.
func (j *Jobs) Evaluations(jobID string, q *QueryOptions) ([]*Evaluation, *QueryMeta, error) {
	return get[[]*Evaluation](j.client, jobPath(jobID, "/evaluations"), q)
}

// Summary returns the number of a job's allocations by group and state.
func (j *Jobs) Summary(jobID string, q *QueryOptions) (*JobSummary, *QueryMeta, error) {
	return get[*JobSummary](j.client, jobPath(jobID, "/summary"), q)
}

// Deregister stops a job, and removes it if purge is set. It returns the ID of the new
// evaluation.
func (j *Jobs) Deregister(jobID string, purge bool, q *WriteOptions) (string, *WriteMeta, error) {
	return j.DeregisterOpts(jobID, &DeregisterOptions{Purge: purge}, q)
}

// maxIDPath is the longest path with the ID of a job. Servers refuse requests with longer headers, and Nomad has no other
// way to stop a job.
const maxIDPath = 32 << 10

// DeregisterOpts is Deregister with options. An ID that is too long for a URL is sent in the body, which servers of Nomad
// do not support.
func (j *Jobs) DeregisterOpts(jobID string, opts *DeregisterOptions, q *WriteOptions) (string, *WriteMeta, error) {
	if len(jobPath(jobID, "")) > maxIDPath {
		return j.stop(jobID, opts, q)
	}
	params := url.Values{}
	if opts != nil {
		params.Set("purge", strconv.FormatBool(opts.Purge))
		params.Set("global", strconv.FormatBool(opts.Global))
		params.Set("no_shutdown_delay", strconv.FormatBool(opts.NoShutdownDelay))
		if opts.EvalPriority != 0 {
			params.Set("eval_priority", strconv.Itoa(opts.EvalPriority))
		}
	}
	var out JobDeregisterResponse
	meta, err := j.client.write(call{http.MethodDelete, jobPath(jobID, "?"+params.Encode()), nil, &out}, q)
	if err != nil {
		return "", nil, err
	}
	return out.EvalID, meta, nil
}

// stop is DeregisterOpts with the ID in the body.
func (j *Jobs) stop(jobID string, opts *DeregisterOptions, q *WriteOptions) (string, *WriteMeta, error) {
	req := &JobDeregisterRequest{JobID: jobID}
	if opts != nil {
		req.Purge, req.Global, req.EvalPriority, req.NoShutdownDelay = opts.Purge, opts.Global, opts.EvalPriority, opts.NoShutdownDelay
	}
	var out JobDeregisterResponse
	meta, err := j.client.put("/v1/jobs/stop", req, &out, q)
	if err != nil {
		return "", nil, err
	}
	return out.EvalID, meta, nil
}

// ForceEvaluate creates an evaluation of a job and returns its ID.
func (j *Jobs) ForceEvaluate(jobID string, q *WriteOptions) (string, *WriteMeta, error) {
	return j.EvaluateWithOpts(jobID, EvalOptions{}, q)
}

// EvaluateWithOpts is ForceEvaluate with options.
func (j *Jobs) EvaluateWithOpts(jobID string, opts EvalOptions, q *WriteOptions) (string, *WriteMeta, error) {
	var out JobRegisterResponse
	req := &JobEvaluateRequest{JobID: jobID, EvalOptions: opts}
	meta, err := j.client.put(jobPath(jobID, "/evaluate"), req, &out, q)
	if err != nil {
		return "", nil, err
	}
	return out.EvalID, meta, nil
}

// Revert registers a version of a job again. enforcePrior is the expected current version, or nil.
// The last two parameters, tokens of Consul and Vault, are ignored.
func (j *Jobs) Revert(jobID string, version uint64, enforcePrior *uint64, q *WriteOptions, _, _ string) (*JobRegisterResponse, *WriteMeta,
	error) {
	var out JobRegisterResponse
	req := &JobRevertRequest{JobID: jobID, JobVersion: version, EnforcePriorVersion: enforcePrior}
	meta, err := j.client.put(jobPath(jobID, "/revert"), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// Stable sets whether a version of a job is stable.
func (j *Jobs) Stable(jobID string, version uint64, stable bool, q *WriteOptions) (*JobStabilityResponse, *WriteMeta, error) {
	var out JobStabilityResponse
	req := &JobStabilityRequest{JobID: jobID, JobVersion: version, Stable: stable}
	meta, err := j.client.put(jobPath(jobID, "/stable"), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// VersionByTag returns the version of a job with a tag.
func (j *Jobs) VersionByTag(jobID, tag string, q *QueryOptions) (*Job, *QueryMeta, error) {
	versions, _, meta, err := j.Versions(jobID, false, q)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range versions {
		if v.VersionTag != nil && v.VersionTag.Name == tag {
			return v, meta, nil
		}
	}
	return nil, nil, fmt.Errorf("job %q has no version with the tag %q", jobID, tag)
}

// TagVersion gives a version of a job a tag.
func (j *Jobs) TagVersion(jobID string, version uint64, name, description string, q *WriteOptions) (*WriteMeta, error) {
	return j.TagVersionOpts(jobID, name, &TagVersionRequest{Version: version, Description: description}, q)
}

// TagVersionOpts is TagVersion with a request.
func (j *Jobs) TagVersionOpts(jobID, tag string, req *TagVersionRequest, q *WriteOptions) (*WriteMeta, error) {
	var out JobTagResponse
	return j.client.put(jobPath(jobID, "/versions/"+url.PathEscape(tag)+"/tag"), req, &out, q)
}

// UntagVersion removes a tag of a job.
func (j *Jobs) UntagVersion(jobID, tag string, q *WriteOptions) (*WriteMeta, error) {
	var out JobTagResponse
	return j.client.write(call{http.MethodDelete, jobPath(jobID, "/versions/"+url.PathEscape(tag)+"/tag"), nil, &out}, q)
}

// PeriodicForce launches a periodic job now and returns the ID of the evaluation.
func (j *Jobs) PeriodicForce(jobID string, q *WriteOptions) (string, *WriteMeta, error) {
	var out PeriodicForceResponse
	meta, err := j.client.put(jobPath(jobID, "/periodic/force"), nil, &out, q)
	if err != nil {
		return "", nil, err
	}
	return out.EvalID, meta, nil
}

// Dispatch dispatches an instance of a parameterized job.
func (j *Jobs) Dispatch(jobID string, meta map[string]string, payload []byte, idPrefixTemplate string,
	q *WriteOptions) (*JobDispatchResponse, *WriteMeta, error) {
	return j.DispatchOpts(&DispatchOptions{JobID: jobID, Meta: meta, Payload: payload, IdPrefixTemplate: idPrefixTemplate}, q)
}

// DispatchOpts is Dispatch with options.
func (j *Jobs) DispatchOpts(opts *DispatchOptions, q *WriteOptions) (*JobDispatchResponse, *WriteMeta, error) {
	req := &JobDispatchRequest{
		JobID: opts.JobID, Meta: opts.Meta, Payload: opts.Payload,
		IdPrefixTemplate: opts.IdPrefixTemplate, Priority: opts.Priority,
	}
	var out JobDispatchResponse
	wm, err := j.client.put(jobPath(opts.JobID, "/dispatch"), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, wm, nil
}

// ParseHCL sends a job file to the agent, which parses it. If canonicalize is set, the agent also
// sets the defaults of the job.
func (j *Jobs) ParseHCL(jobHCL string, canonicalize bool) (*Job, error) {
	return j.ParseHCLOpts(&JobsParseRequest{JobHCL: jobHCL, Canonicalize: canonicalize})
}

// ParseHCLOpts is ParseHCL with values for input variables.
func (j *Jobs) ParseHCLOpts(req *JobsParseRequest) (*Job, error) {
	var out Job
	if _, err := j.client.put("/v1/jobs/parse", req, &out, nil); err != nil {
		return nil, err
	}
	return &out, nil
}

// RegisterOptions are the options of Jobs.RegisterOpts. With EnforceIndex, the job is
// registered only if its index is ModifyIndex. 0 means that the job must not exist.
type RegisterOptions struct {
	EnforceIndex      bool
	ModifyIndex       uint64
	PolicyOverride    bool
	PreserveCounts    bool
	PreserveResources bool
	EvalPriority      int
	Submission        *JobSubmission
}

// PlanOptions are the options of Jobs.PlanOpts.
type PlanOptions struct {
	Diff           bool
	PolicyOverride bool
}

// JobListOptions are the options of Jobs.ListOptions.
type JobListOptions struct {
	Fields *JobListFields
}

// JobListFields selects the optional fields of a job list.
type JobListFields struct {
	Meta bool
}

// DeregisterOptions are the options of Jobs.DeregisterOpts.
type DeregisterOptions struct {
	Purge           bool
	Global          bool
	EvalPriority    int
	NoShutdownDelay bool
}

// DispatchOptions are the options of Jobs.DispatchOpts.
type DispatchOptions struct {
	JobID            string
	Meta             map[string]string
	Payload          []byte
	IdPrefixTemplate string
	Priority         int
}

// VersionsOptions are the options of Jobs.VersionsOpts.
type VersionsOptions struct {
	Diffs       bool
	DiffTag     string
	DiffVersion *uint64
}
