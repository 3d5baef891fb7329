package nomad

import "slices"

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
