package reconcile

import (
	"iter"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Reasons for stopping an allocation, used as its desired description.
const (
	NotNeeded = "alloc not needed due to job update"
	Replaced  = "alloc is being updated due to job update"
	Moved     = "alloc is being migrated"
	Tainted   = "alloc not needed as node is tainted" // Moved, of system and sysbatch jobs
	NodeLost  = "alloc is lost since its node is down"
	NodeUnfit = NotNeeded // of system and sysbatch jobs
	Failed    = "alloc was rescheduled because it failed"
	Ended     = "alloc was rescheduled because its tasks ended"
	Returned  = "alloc not needed due to disconnected client reconnect"
)

// Request is the input of Generic and System.
type Request struct {
	Eval *nomad.Evaluation
	// Job is nil or stopped if all allocations must stop.
	Job    *nomad.Job
	Allocs []*nomad.Allocation
	// Node returns nil for a node that does not exist.
	Node       func(id string) *nomad.Node
	Deployment *nomad.Deployment // the latest of the job, may be nil
	Now        time.Time
	NewID      func() string
	// Suits reports whether the allocation's node still meets the demands of the new version of its
	// group.
	Suits func(*nomad.Allocation, *nomad.TaskGroup) bool
	// Evals returns the evaluations of the job. Without it, all follow-up evaluations count as pending.
	Evals func() iter.Seq[*nomad.Evaluation]
	// SystemDeployments is set if all clients support deployments of system jobs.
	SystemDeployments bool
}

// Placement requests a new allocation.
type Placement struct {
	Name  string
	Group *nomad.TaskGroup
	// Previous is the allocation that this one replaces, if any.
	Previous *nomad.Allocation
	// StopPrevious is the reason to stop Previous once a node for the new one is found. It is empty
	// if Previous is already stopped.
	StopPrevious string
	// Reschedule is set if Previous failed: the new allocation records the delay and prefers other
	// nodes.
	Reschedule *Reschedule
	// Destructive marks the replacement of an allocation by a new version of its
	// group.
	Destructive bool
	// Node is the required node, or empty if the scheduler chooses.
	Node string
	// Canary marks an allocation that runs beside those that it will replace.
	Canary bool
	// Job is the older version that the allocation runs, or nil for the current version.
	Job *nomad.Job
}

// Stop requests that an allocation ends.
type Stop struct {
	Alloc        *nomad.Allocation
	Description  string
	ClientStatus string // empty: as reported by the client
}

// Delay records on an allocation which evaluation will replace it, or end its time as unknown.
type Delay struct {
	Alloc  *nomad.Allocation
	EvalID string
	// Unknown means that the allocation becomes unknown, because its client is disconnected.
	Unknown bool
}

// Result is the set of required changes.
type Result struct {
	Place   []Placement
	Stop    []Stop
	InPlace []*nomad.Allocation // in the current version; they get the new job
	Delay   []Delay
	// Reconnected are unknown allocations whose client returned and that are kept.
	Reconnected []*nomad.Allocation
	// Followups are the evaluations that Delay refers to. They are created before the plan.
	Followups []*nomad.Evaluation
	// Created is a new deployment. Deployment is the one that placements belong to, new or
	// existing.
	Created, Deployment *nomad.Deployment
	DeploymentUpdates   []*nomad.DeploymentStatusUpdate
	Desired             map[string]*nomad.DesiredUpdates
	// Totals is how many allocations each group of a system job has on the given nodes, now or after the placements.
	Totals map[string]int
	// Rolling is set if updates of system allocations wait for a later evaluation.
	Rolling bool
}

func (r *Result) desired(group string) *nomad.DesiredUpdates {
	d := r.Desired[group]
	if d == nil {
		d = &nomad.DesiredUpdates{}
		r.Desired[group] = d
	}
	return d
}

func (r *Result) stop(a *nomad.Allocation, why, clientStatus string) {
	r.Stop = append(r.Stop, Stop{Alloc: a, Description: why, ClientStatus: clientStatus})
}
