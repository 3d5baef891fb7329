package httpclient

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/workload"
)

// Explain returns the checks of the nodes for one more allocation of each group of a registered job.
// q.Params can contain the name of a group, and the name or a prefix of the ID of a node.
// It is open-nomad only.
func (j *Jobs) Explain(jobID string, q *QueryOptions) (*api.JobExplanation, *api.QueryMeta, error) {
	return get[*api.JobExplanation](j.client, jobPath(jobID, "/explain"), q)
}

// ExplainJob is Explain for a job that need not be registered.
func (j *Jobs) ExplainJob(job *workload.Job, q *QueryOptions) (*api.JobExplanation, *api.QueryMeta, error) {
	if job == nil || job.ID == nil {
		return nil, nil, errNoJobID
	}
	out := &api.JobExplanation{}
	meta, err := j.client.queryBody(http.MethodPut, jobPath(*job.ID, "/explain"), &api.JobExplainRequest{Job: job}, out, q)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}
