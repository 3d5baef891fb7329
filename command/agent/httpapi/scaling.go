package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) scalingRoutes() []web.Route {
	const job = "/v1/job/:job_id"
	return []web.Route{
		{Methods: "GET", Path: job + "/scale",
			Handle: web.Read("Job.ScaleStatus", scaleStatus, func(o *message.JobScaleStatusResponse) (any, error) {
				return web.Found(o.JobScaleStatus, "job not found")
			})},
		{Methods: "PUT POST", Path: job + "/scale", Call: web.Write("Job.Scale", jobScale, web.Full[message.JobRegisterResponse])},
		{Methods: "GET", Path: "/v1/scaling/policies", Handle: web.Read("Scaling.ListPolicies", scalingPolicies,
			func(o *message.ScalingPolicyListResponse) (any, error) { return o.Policies, nil })},
		{Methods: "GET", Path: "/v1/scaling/policy/:id", Handle: web.Read("Scaling.GetPolicy", scalingPolicy,
			func(o *message.SingleScalingPolicyResponse) (any, error) {
				return web.Found(o.Policy, "policy not found")
			})},
	}
}

func scaleStatus(r *web.Request, q *message.JobScaleStatusRequest) error {
	q.JobID = r.Param
	return nil
}

// jobScale reads the part of the body that autoscalers send. A job modify index makes the change
// conditional.
func jobScale(r *web.Request, q *message.JobScaleRequest) error {
	var b struct {
		Count          *int64
		Target         map[string]string
		Message        string
		Error          bool
		Meta           map[string]any
		PolicyOverride bool
		JobModifyIndex uint64
	}
	if err := r.Decode(&b); err != nil {
		return err
	}
	if job := b.Target[nomad.ScalingTargetJob]; job != "" && job != r.Param {
		return apierror.Errorf(http.StatusBadRequest, "job ID in payload did not match URL")
	}
	q.JobID, q.Target, q.Count, q.Message, q.Error, q.Meta = r.Param, b.Target, b.Count, b.Message, b.Error, b.Meta
	q.PolicyOverride, q.EnforceIndex, q.JobModifyIndex = b.PolicyOverride, b.JobModifyIndex != 0, b.JobModifyIndex
	return nil
}

func scalingPolicies(r *web.Request, q *message.ScalingPolicyListRequest) error {
	q.Job, q.Type = r.Query.Get("job"), r.Query.Get("type")
	return nil
}

func scalingPolicy(r *web.Request, q *message.ScalingPolicySpecificRequest) error {
	q.ID = r.Param
	return nil
}
