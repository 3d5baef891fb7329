package nomad

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// ScalingPolicyTypeHorizontal is the type of the policies of task groups, which limit the count.
const ScalingPolicyTypeHorizontal = "horizontal"

// The keys of the target of a scaling policy.
const (
	ScalingTargetNamespace = "Namespace"
	ScalingTargetJob       = "Job"
	ScalingTargetGroup     = "Group"
	ScalingTargetTask      = "Task"
)

// ScalingPolicy limits the values that an autoscaler may set for the count or the resources. The
// leader sets its ID before it writes the job to the log.
type ScalingPolicy struct {
	ID          string
	Type        string
	Target      map[string]string
	Policy      map[string]any
	Min         int64
	Max         int64
	Enabled     bool
	CreateIndex uint64
	ModifyIndex uint64
}

// JobScalingEvents are the newest scaling events of the groups of a job.
type JobScalingEvents struct {
	Namespace     string
	JobID         string
	ScalingEvents map[string][]*ScalingEvent
	ModifyIndex   uint64
}

// ScalingEvent is a change of the count of a group, or a message of an autoscaler. Time is in
// Unix nanoseconds.
type ScalingEvent struct {
	Time          int64
	Count         *int64
	PreviousCount int64
	Message       string
	Error         bool
	Meta          map[string]any
	EvalID        *string
	CreateIndex   uint64
}

// WithoutScaling returns a copy of the job whose groups have no scaling policies. It
// shares everything else with the job.
func (j *Job) WithoutScaling() *Job {
	out := *j
	out.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range out.TaskGroups {
		if g == nil || g.Scaling == nil {
			continue
		}
		group := *g
		group.Scaling, out.TaskGroups[i] = nil, &group
	}
	return &out
}

// JobTrackedScalingEvents is the number of scaling events that are stored of each group.
const JobTrackedScalingEvents = 20

// ScalingPolicyListStub is a scaling policy in a list.
type ScalingPolicyListStub struct {
	ID          string
	Enabled     bool
	Type        string
	Target      map[string]string
	CreateIndex uint64
	ModifyIndex uint64
}

// Stub returns the policy as it is in lists.
func (p *ScalingPolicy) Stub() *ScalingPolicyListStub {
	return &ScalingPolicyListStub{ID: p.ID, Enabled: p.Enabled, Type: p.Type, Target: p.Target, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
}

// Admits returns an error if the policy does not allow a count. It ignores Enabled, which is for
// autoscalers.
func (p *ScalingPolicy) Admits(count int64) error {
	switch {
	case p == nil:
		return nil
	case count < p.Min:
		return apierror.Errorf(400, "group count was less than scaling policy minimum: %d < %d", count, p.Min)
	case count > p.Max:
		return apierror.Errorf(400, "group count was greater than scaling policy maximum: %d > %d", count, p.Max)
	}
	return nil
}
