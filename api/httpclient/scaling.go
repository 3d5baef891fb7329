package httpclient

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/workload"
)

// Scaling is the handle for scaling policies.
type Scaling struct{ client *Client }

// Scaling returns the handle for scaling policies.
func (c *Client) Scaling() *Scaling { return &Scaling{c} }

// ListPolicies lists scaling policies by ID. The parameters job and type select some.
func (s *Scaling) ListPolicies(q *QueryOptions) ([]*api.ScalingPolicyListStub, *api.QueryMeta, error) {
	return get[[]*api.ScalingPolicyListStub](s.client, "/v1/scaling/policies", q)
}

// Policy returns a scaling policy.
func (s *Scaling) Policy(id string, q *QueryOptions) (*workload.ScalingPolicy, *api.QueryMeta, error) {
	return get[*workload.ScalingPolicy](s.client, "/v1/scaling/policy/"+id, q)
}

// Scale changes the count of a group, or stores an event if the request has no count.
func (j *Jobs) Scale(jobID string, req *api.ScalingRequest, q *WriteOptions) (*api.JobRegisterResponse, *api.WriteMeta, error) {
	var out api.JobRegisterResponse
	meta, err := j.client.put(jobPath(jobID, "/scale"), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// ScaleStatus returns the counts and the scaling events of the groups of a job.
func (j *Jobs) ScaleStatus(jobID string, q *QueryOptions) (*api.JobScaleStatusResponse, *api.QueryMeta, error) {
	return get[*api.JobScaleStatusResponse](j.client, jobPath(jobID, "/scale"), q)
}
