package message

import "github.com/open-nomad/open-nomad/nomad"

// JobScaleRequest is the request of Job.Scale.
type JobScaleRequest struct {
	JobID          string
	Target         map[string]string
	Count          *int64
	Message        string
	Error          bool
	Meta           map[string]any
	PolicyOverride bool
	EnforceIndex   bool
	JobModifyIndex uint64
	WriteRequest
}

// JobScaleStatusRequest is the request of Job.ScaleStatus.
type JobScaleStatusRequest struct {
	JobID string
	QueryOptions
}

// JobScaleStatusResponse is the reply of Job.ScaleStatus.
type JobScaleStatusResponse struct {
	JobScaleStatus *JobScaleStatus
	QueryMeta
}

// ScalingEventRequest is the command that adds an event to a group of a job.
type ScalingEventRequest struct {
	Namespace    string
	JobID        string
	TaskGroup    string
	ScalingEvent *nomad.ScalingEvent
}

// ScalingPolicyListRequest is the request of Scaling.ListPolicies.
type ScalingPolicyListRequest struct {
	Job  string
	Type string
	QueryOptions
}

// ScalingPolicyListResponse is the reply of Scaling.ListPolicies.
type ScalingPolicyListResponse struct {
	Policies []*nomad.ScalingPolicyListStub
	QueryMeta
}

// ScalingPolicySpecificRequest is the request of Scaling.GetPolicy.
type ScalingPolicySpecificRequest struct {
	ID string
	QueryOptions
}

// SingleScalingPolicyResponse is the reply of Scaling.GetPolicy.
type SingleScalingPolicyResponse struct {
	Policy *nomad.ScalingPolicy
	QueryMeta
}

// JobScaleStatus is the state of the groups of a job for an autoscaler.
type JobScaleStatus struct {
	JobID          string
	Namespace      string
	JobCreateIndex uint64
	JobModifyIndex uint64
	JobStopped     bool
	TaskGroups     map[string]*TaskGroupScaleStatus
}

// TaskGroupScaleStatus counts the allocations of a group that are neither terminal nor canaries.
// Desired is the count of the group. The newest event is the first.
type TaskGroupScaleStatus struct {
	Desired   int
	Placed    int
	Running   int
	Healthy   int
	Unhealthy int
	Events    []*nomad.ScalingEvent
}

// Add counts an allocation.
func (s *TaskGroupScaleStatus) Add(a *nomad.Allocation) {
	health := a.DeploymentStatus
	if a.TerminalStatus() || health != nil && health.Canary {
		return
	}
	s.Placed++
	if a.ClientStatus == nomad.AllocClientStatusRunning {
		s.Running++
	}
	if health == nil || health.Healthy == nil {
		return
	}
	if *health.Healthy {
		s.Healthy++
	} else {
		s.Unhealthy++
	}
}
