package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Why an allocation is stopped, as its desired description says.
const (
	NotNeeded   = "no longer needed by the job"
	Moved       = "moved to another node"
	Replaced    = "replaced by a newer version of the job"
	NodeLost    = "lost: its node is down"
	Failed      = "replaced after a failure"
	Unhealthy   = "replaced because its deployment found it unhealthy"
	Rescheduled = "replaced on request"
	NodeUnfit   = "its node no longer suits the job"
)

// Request is what Generic and System look at.
type Request struct {
	Eval *nomad.Evaluation
	// Job is nil or stopped when everything has to end.
	Job    *nomad.Job
	Allocs []*nomad.Allocation
	// Node returns nil for a node that is gone.
	Node       func(id string) *nomad.Node
	Deployment *nomad.Deployment // the job's latest, may be nil
	Now        time.Time
	NewID      func() string
	// Suits says whether the allocation's node still meets what the new
	// version of its group demands of a node.
	Suits func(*nomad.Allocation, *nomad.TaskGroup) bool
}

// Placement asks for a new allocation.
type Placement struct {
	Name  string
	Group *nomad.TaskGroup
	// Previous is the allocation that this one follows, if any.
	Previous *nomad.Allocation
	// StopPrevious is why Previous has to be stopped once there is a node for
	// the new one; empty when it is stopped already.
	StopPrevious string
	// Reschedule is set when Previous failed: the new one remembers the delay
	// and prefers other nodes.
	Reschedule *Reschedule
	// Destructive marks the replacement of an allocation by a new version of its
	// group.
	Destructive bool
	// Node is where it must run; empty when the scheduler chooses.
	Node string
}

// Stop asks for the end of an allocation.
type Stop struct {
	Alloc        *nomad.Allocation
	Description  string
	ClientStatus string // empty: as the client reports
}

// Delay notes on a failed allocation which evaluation will replace it.
type Delay struct {
	Alloc  *nomad.Allocation
	EvalID string
}

// Result is what should change.
type Result struct {
	Place   []Placement
	Stop    []Stop
	InPlace []*nomad.Allocation // as they are; they get the new job
	Delay   []Delay
	// Followups are the evaluations of Delay, to be created before the plan.
	Followups []*nomad.Evaluation
	// Created is a new deployment; Deployment is the one that placements belong
	// to, new or not.
	Created, Deployment *nomad.Deployment
	DeploymentUpdates   []*nomad.DeploymentStatusUpdate
	Desired             map[string]*nomad.DesiredUpdates
	// Rolling is set when system allocations wait for a later evaluation.
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
