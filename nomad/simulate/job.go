package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/jobs"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Changes of a job.
const (
	ChangeNew       = "new"
	ChangeUpdate    = "update"
	ChangeUnchanged = "unchanged"
)

// Job is the result of a simulated registration.
type Job struct {
	Namespace string
	ID        string
	Type      string
	Change    string // new, update or unchanged
	Warnings  []string
	// Launched is false for a periodic or parameterized job, which is not scheduled when it is registered.
	Launched  bool
	Placed    []Placed
	Stopped   []Stopped
	Preempted []Stopped
	Desired   map[string]*nomad.DesiredUpdates // by group
	// FailedTGAllocs has the reasons why allocations were not placed, by group.
	FailedTGAllocs map[string]*nomad.AllocMetric
	// Displaced are the preempted allocations of other jobs that cannot be placed again.
	Displaced      []Displaced
	SchedulingTime time.Duration

	placed map[Placed]int
}

// Placed counts new allocations of a group on nodes of one class and datacenter. The group may be of another job:
// preempted allocations are placed again.
type Placed struct {
	JobID      string
	TaskGroup  string
	Datacenter string
	NodeClass  string
	Count      int
}

// Stopped is an allocation that the plan stops.
type Stopped struct {
	AllocID   string
	Name      string
	Namespace string
	JobID     string
	NodeName  string
	Reason    string
}

// Displaced counts the allocations of a group that preemption leaves without a node.
type Displaced struct {
	Namespace string
	JobID     string
	TaskGroup string
	Count     int
}

func newJob(a *jobs.Admitted) *Job {
	out := &Job{Namespace: a.Job().Namespace, ID: a.Job().ID, Type: a.Job().Type, Change: ChangeNew, Warnings: a.Warnings(),
		Launched: !a.Job().IsPeriodic() && !a.Job().IsParameterized(), Placed: []Placed{}, Stopped: []Stopped{}, Preempted: []Stopped{},
		Displaced: []Displaced{},
		placed:    map[Placed]int{}}
	switch {
	case a.Unchanged:
		out.Change = ChangeUnchanged
	case a.Old != nil:
		out.Change = ChangeUpdate
	}
	return out
}

// Failed returns how many allocations were not placed: those of the job, and preempted ones of other jobs.
func (j *Job) Failed() int {
	n := 0
	for _, d := range j.Displaced {
		n += d.Count
	}
	for _, m := range j.FailedTGAllocs {
		n += m.CoalescedFailures + 1
	}
	return n
}

// record adds the accepted part of a plan. The snapshot is that before the plan.
func (j *Job) record(snap *state.Snapshot, p *nomad.Plan, r *nomad.PlanResult) {
	if p.Annotations != nil {
		j.Desired = p.Annotations.DesiredTGUpdates
	}
	for node, list := range r.NodeAllocation {
		n := snap.Node(nil, node)
		for _, a := range list {
			if snap.Alloc(nil, a.ID) == nil { // the others are updated in place
				j.placed[Placed{JobID: a.JobID, TaskGroup: a.TaskGroup, Datacenter: n.Datacenter, NodeClass: n.NodeClass}]++
			}
		}
	}
	for _, list := range r.NodeUpdate {
		for _, a := range list {
			j.Stopped = append(j.Stopped, stopped(snap, a.ID, a.DesiredDescription))
		}
	}
	for _, list := range r.NodePreemptions {
		for _, a := range list {
			j.Preempted = append(j.Preempted, stopped(snap, a.ID, "preempted"))
		}
	}
}

func stopped(snap *state.Snapshot, id, why string) Stopped {
	out := Stopped{AllocID: id, Reason: why}
	if a := snap.Alloc(nil, id); a != nil {
		out.Name, out.Namespace, out.JobID, out.NodeName = a.Name, a.Namespace, a.JobID, a.NodeName
	}
	return out
}

// finish records the failed placements of an evaluation.
func (j *Job) finish(e *nomad.Evaluation) {
	if e.JobID == j.ID && e.Namespace == j.Namespace {
		j.FailedTGAllocs = e.FailedTGAllocs
		return
	}
	for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		j.Displaced = append(j.Displaced, Displaced{e.Namespace, e.JobID, group, e.FailedTGAllocs[group].CoalescedFailures + 1})
	}
}

// sort completes the lists and sorts them.
func (j *Job) sort() {
	for key, n := range j.placed {
		key.Count = n
		j.Placed = append(j.Placed, key)
	}
	slices.SortFunc(j.Placed, func(a, b Placed) int {
		return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.TaskGroup, b.TaskGroup), cmp.Compare(a.Datacenter, b.Datacenter),
			cmp.Compare(a.NodeClass, b.NodeClass))
	})
	for _, list := range [][]Stopped{j.Stopped, j.Preempted} {
		slices.SortFunc(list, func(a, b Stopped) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.AllocID, b.AllocID))
		})
	}
}
