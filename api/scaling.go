package api

import "net/url"

// ScalingPolicyTypeHorizontal is the type of a policy for the count of a group.
const ScalingPolicyTypeHorizontal = "horizontal"

// ScalingRequest is the body of PUT /v1/job/:id/scale. Target holds the name of the group in Group.
// Without Count it only stores an event.
type ScalingRequest struct {
	Count   *int64
	Target  map[string]string
	Message string
	Error   bool
	Meta    map[string]any
	WriteRequest
	PolicyOverride bool
	JobModifyIndex uint64
}

// JobScaleStatusResponse is the state of the groups of a job for an autoscaler.
type JobScaleStatusResponse struct {
	JobID          string
	Namespace      string
	JobCreateIndex uint64
	JobModifyIndex uint64
	JobStopped     bool
	TaskGroups     map[string]TaskGroupScaleStatus
}

// TaskGroupScaleStatus is the number of allocations of a group, and its scaling events, newest first.
type TaskGroupScaleStatus struct {
	Desired   int
	Placed    int
	Running   int
	Healthy   int
	Unhealthy int
	Events    []ScalingEvent
}

// ScalingEvent is a change of the count of a group, or a message of an autoscaler. Time is in Unix
// nanoseconds.
type ScalingEvent struct {
	Count         *int64
	PreviousCount int64
	Error         bool
	Message       string
	Meta          map[string]any
	EvalID        *string
	Time          uint64
	CreateIndex   uint64
}

// ScalingPolicyListStub is a scaling policy in a list.
type ScalingPolicyListStub struct {
	ID          string
	Enabled     bool
	Type        string
	Target      map[string]string
	CreateIndex uint64
	ModifyIndex uint64
}

// Scaling is the handle for scaling policies.
type Scaling struct{ client *Client }

// Scaling returns the handle for scaling policies.
func (c *Client) Scaling() *Scaling { return &Scaling{c} }

// ListPolicies lists scaling policies by ID. The parameters job and type select some.
func (s *Scaling) ListPolicies(q *QueryOptions) ([]*ScalingPolicyListStub, *QueryMeta, error) {
	return get[[]*ScalingPolicyListStub](s.client, "/v1/scaling/policies", q)
}

// GetPolicy returns a scaling policy.
func (s *Scaling) GetPolicy(id string, q *QueryOptions) (*ScalingPolicy, *QueryMeta, error) {
	return get[*ScalingPolicy](s.client, "/v1/scaling/policy/"+url.PathEscape(id), q)
}

// Scale changes the count of a group, or stores an event if count is nil.
func (j *Jobs) Scale(jobID, group string, count *int, message string, error bool, meta map[string]any,
	q *WriteOptions) (*JobRegisterResponse, *WriteMeta, error) {
	req := &ScalingRequest{Target: map[string]string{"Group": group}, Message: message, Error: error, Meta: meta}
	if count != nil {
		req.Count = new(int64(*count))
	}
	return j.ScaleWithRequest(jobID, req, q)
}

// ScaleWithRequest is Scale with a request.
func (j *Jobs) ScaleWithRequest(jobID string, req *ScalingRequest, q *WriteOptions) (*JobRegisterResponse, *WriteMeta, error) {
	var out JobRegisterResponse
	meta, err := j.client.put(jobPath(jobID, "/scale"), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// ScaleStatus returns the counts and the scaling events of the groups of a job.
func (j *Jobs) ScaleStatus(jobID string, q *QueryOptions) (*JobScaleStatusResponse, *QueryMeta, error) {
	return get[*JobScaleStatusResponse](j.client, jobPath(jobID, "/scale"), q)
}
