package jobwait

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// state is what the servers report about a job at one moment. The evaluations are read
// first: when all of them have ended, what they created is in the rest.
type state struct {
	job        *api.Job // nil if it was purged
	evals      []*api.Evaluation
	deployment *api.Deployment // of the version that is waited for, or nil
	allocs     []*api.AllocationListStub
}

// verdict is the result of a condition.
type verdict int

const (
	waiting verdict = iota
	reached
	impossible // the condition cannot be reached any more
)

// condition decides on a state. It returns the reason, which is also the progress. version
// is the version of the job when the wait began.
type condition func(s *state, version uint64) (verdict, string)

// conditions are the values of -for.
var conditions = map[string]condition{"healthy": healthy, "running": running, "complete": complete, "dead": dead}

// names lists the values of -for.
func names() string { return "healthy, running, complete or dead" }

// changed decides on a job that is not the one of the beginning any more.
func changed(s *state, version uint64) (verdict, string) {
	switch {
	case s.job == nil:
		return impossible, "the job was purged"
	case *s.job.Version != version:
		return impossible, fmt.Sprintf("version %d of the job was replaced by version %d", version, *s.job.Version)
	}
	return waiting, ""
}

// stopped reports whether the user stopped the job.
func (s *state) stopped() bool { return s.job.Stop != nil && *s.job.Stop }

// decided reports whether the scheduler has placed all that it can.
func (s *state) decided() bool {
	return !slices.ContainsFunc(s.evals, func(e *api.Evaluation) bool { return e.Status == api.EvalStatusPending })
}

// blocked returns the number of evaluations that wait for capacity.
func (s *state) blocked() int {
	n := 0
	for _, e := range s.evals {
		if e.Status == api.EvalStatusBlocked {
			n++
		}
	}
	return n
}

// noCapacity ends the progress of a job whose evaluation is blocked.
const noCapacity = ", no capacity for the rest: see 'nomad job status'"

// healthy waits for the deployment of the version. A version without a deployment is
// healthy when it runs: the servers make none for a change that starts no allocation, and
// for groups without an update block.
func healthy(s *state, version uint64) (verdict, string) {
	d := s.deployment
	if d == nil {
		if v, why := changed(s, version); v != waiting {
			return v, why
		}
		v, why := running(s, version)
		if v == reached && !s.decided() {
			return waiting, "the evaluation is pending"
		}
		return v, why
	}
	switch d.Status {
	case api.DeploymentStatusSuccessful:
		if s.job != nil && *s.job.Version == version && s.stopped() {
			return impossible, "the job is stopped"
		}
		return reached, "the deployment is successful"
	case api.DeploymentStatusFailed, api.DeploymentStatusCancelled:
		return impossible, fmt.Sprintf("the deployment is %s: %s", d.Status, d.StatusDescription)
	}
	if v, why := changed(s, version); v != waiting {
		return v, why
	}
	if s.stopped() {
		return impossible, "the job is stopped"
	}
	good, want := 0, 0
	for _, g := range d.TaskGroups {
		good, want = good+g.HealthyAllocs, want+g.DesiredTotal
	}
	text := fmt.Sprintf("deployment %s: %d of %d allocations healthy: %s", d.Status, good, want, d.StatusDescription)
	if s.blocked() > 0 {
		text += noCapacity
	}
	return waiting, text
}

// running waits until each group has all allocations of its count running. For a system job,
// whose count is by node, all that were placed must run, and at least one.
func running(s *state, version uint64) (verdict, string) {
	if v, why := changed(s, version); v != waiting {
		return v, why
	}
	if s.stopped() {
		return impossible, "the job is stopped"
	}
	byNode := slices.Contains([]string{api.JobTypeSystem, api.JobTypeSysbatch}, *s.job.Type)
	up, want := 0, 0
	for _, g := range s.job.TaskGroups {
		r, placed := s.runs(*g.Name, version)
		if byNode {
			up, want = up+r, want+max(placed, 1)
			continue
		}
		up, want = up+min(r, *g.Count), want+*g.Count
	}
	text := fmt.Sprintf("%d of %d allocations running", up, want)
	if n := s.blocked(); n > 0 {
		return waiting, text + noCapacity
	}
	switch {
	case up == want && (!byNode || s.decided()):
		return reached, text
	case *s.job.Status == "dead" && s.decided():
		return impossible, "the job is dead: " + failures(s)
	}
	return waiting, text
}

// runs counts the allocations of a group and version that run, and those that should.
func (s *state) runs(group string, version uint64) (up, placed int) {
	for _, a := range s.allocs {
		if a.TaskGroup != group || a.JobVersion != version || a.DesiredStatus != api.AllocDesiredStatusRun || a.NextAllocation != "" {
			continue
		}
		placed++
		if a.ClientStatus == api.AllocClientStatusRunning {
			up++
		}
	}
	return up, placed
}

// complete waits until a batch job has ended, and requires that each of its last allocations
// succeeded.
func complete(s *state, version uint64) (verdict, string) {
	if v, why := changed(s, version); v != waiting {
		return v, why
	}
	done, bad, want := 0, 0, 0
	for _, a := range s.allocs {
		if a.NextAllocation != "" || a.JobVersion != version {
			continue
		}
		want++
		switch a.ClientStatus {
		case api.AllocClientStatusComplete:
			done++
		case api.AllocClientStatusFailed, api.AllocClientStatusLost:
			bad++
		}
	}
	switch text := fmt.Sprintf("%d of %d allocations complete", done, want); {
	case s.stopped():
		return impossible, "the job was stopped: " + text
	case *s.job.Status != "dead" || !s.decided() || s.blocked() > 0:
		if bad > 0 {
			text += fmt.Sprintf(", %d failed", bad)
		}
		return waiting, text
	case done == want && want > 0:
		return reached, text
	case want == 0:
		return impossible, "the job is dead and has no allocation"
	default:
		return impossible, text + ": " + failures(s)
	}
}

// dead waits until nothing of the job runs.
func dead(s *state, _ uint64) (verdict, string) {
	if s.job == nil {
		return reached, "the job was purged"
	}
	left := 0
	for _, a := range s.allocs {
		switch a.ClientStatus {
		case api.AllocClientStatusPending, api.AllocClientStatusRunning, api.AllocClientStatusUnknown:
			left++
		}
	}
	if *s.job.Status == "dead" && left == 0 && s.decided() {
		return reached, "the job is dead"
	}
	return waiting, fmt.Sprintf("job %s: %d allocations not terminal", *s.job.Status, left)
}

// maxFailures is the number of failed allocations in a message.
const maxFailures = 3

// failures names the failed allocations and the last exit codes of their tasks.
func failures(s *state) string {
	var out []string
	for _, a := range s.allocs {
		if a.NextAllocation != "" || a.ClientStatus != api.AllocClientStatusFailed && a.ClientStatus != api.AllocClientStatusLost {
			continue
		}
		out = append(out, fmt.Sprintf("allocation %.8s of group %q is %s%s", a.ID, a.TaskGroup, a.ClientStatus, exits(a)))
	}
	if len(out) == 0 {
		return "no allocation failed"
	}
	if n := len(out); n > maxFailures {
		out = append(out[:maxFailures], fmt.Sprintf("and %d more", n-maxFailures))
	}
	return strings.Join(out, ", ")
}

// exits returns the exit codes of the failed tasks of an allocation.
func exits(a *api.AllocationListStub) string {
	var out []string
	for name, t := range a.TaskStates {
		if t == nil || !t.Failed {
			continue
		}
		for _, ev := range slices.Backward(t.Events) {
			if ev.Type == "Terminated" {
				out = append(out, fmt.Sprintf("task %q exit code %d", name, ev.ExitCode))
				break
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return " (" + strings.Join(out, ", ") + ")"
}
