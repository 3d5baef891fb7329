package nomad

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// The types of scaling policies. Those of groups are horizontal and limit the count. Those of tasks limit the resources,
// and are stored without effect.
const (
	ScalingPolicyTypeHorizontal  = "horizontal"
	ScalingPolicyTypeVerticalCPU = "vertical_cpu"
	ScalingPolicyTypeVerticalMem = "vertical_mem"
)

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

// ScalingTarget returns the target of a policy of a group, or of a task in it unless t is nil.
func (j *Job) ScalingTarget(tg *TaskGroup, t *Task) map[string]string {
	out := map[string]string{ScalingTargetNamespace: j.Namespace, ScalingTargetJob: j.ID, ScalingTargetGroup: tg.Name}
	if t != nil {
		out[ScalingTargetTask] = t.Name
	}
	return out
}

// EachScaling calls f for the scaling policies of all groups and tasks. t is nil for that of a group.
func (j *Job) EachScaling(f func(tg *TaskGroup, t *Task, p *ScalingPolicy)) {
	for _, tg := range j.TaskGroups {
		if tg == nil {
			continue // possible only in a job that was stored without validation
		}
		if tg.Scaling != nil {
			f(tg, nil, tg.Scaling)
		}
		for _, t := range tg.Tasks {
			if t == nil {
				continue
			}
			for _, p := range t.ScalingPolicies {
				if p != nil {
					f(tg, t, p)
				}
			}
		}
	}
}

// MapScaling returns a copy of the job with f(p) in place of each scaling policy p, and without those for which f returns
// nil. It shares everything else with the job.
func (j *Job) MapScaling(f func(p *ScalingPolicy) *ScalingPolicy) *Job {
	out := *j
	out.TaskGroups = slices.Clone(j.TaskGroups)
	for i, tg := range out.TaskGroups {
		if tg == nil {
			continue
		}
		group := *tg
		if tg.Scaling != nil {
			group.Scaling = f(tg.Scaling)
		}
		group.Tasks = slices.Clone(tg.Tasks)
		for k, t := range group.Tasks {
			if t == nil || len(t.ScalingPolicies) == 0 {
				continue
			}
			task := *t
			task.ScalingPolicies = nil
			for _, p := range t.ScalingPolicies {
				if p == nil {
					continue
				}
				if p = f(p); p != nil {
					task.ScalingPolicies = append(task.ScalingPolicies, p)
				}
			}
			group.Tasks[k] = &task
		}
		out.TaskGroups[i] = &group
	}
	return &out
}

// WithoutScaling returns a copy of the job without scaling policies.
func (j *Job) WithoutScaling() *Job {
	return j.MapScaling(func(*ScalingPolicy) *ScalingPolicy { return nil })
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
	return &ScalingPolicyListStub{
		ID:          p.ID,
		Enabled:     p.Enabled,
		Type:        p.Type,
		Target:      p.Target,
		CreateIndex: p.CreateIndex,
		ModifyIndex: p.ModifyIndex,
	}
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
