package taskrunner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// outcome is how one run of a task ended, or why it did not start.
type outcome struct {
	exit      *drivers.ExitResult // nil when there was no process
	err       error               // of a start or a recovery
	requested bool                // a restart was requested
	unhealthy bool                // the process was stopped because a check failed
	paused    bool                // it was stopped to be paused
	delay     time.Duration       // before the next start
}

// decision is the result of the restart policy.
type decision struct {
	restart bool
	delay   time.Duration
	failed  bool // only valid if restart is false
	reason  string
}

// tracker counts restarts against a policy.
type tracker struct {
	policy    *nomad.RestartPolicy
	mustRunOn bool // an exit with 0 is a failure too
	count     int
	since     time.Time // start of the interval
}

// newTracker returns a tracker for the policy of the task, else of its group.
func newTracker(job *nomad.Job, group *nomad.TaskGroup, task *nomad.Task) *tracker {
	t := &tracker{policy: task.RestartPolicy, mustRunOn: nomad.MustRunOn(job.Type, task.Lifecycle)}
	if t.policy == nil && group != nil {
		t.policy = group.RestartPolicy
	}
	return t
}

// decide applies the policy to a run that ended at now.
func (t *tracker) decide(now time.Time, o outcome) decision {
	success := o.exit != nil && o.exit.Successful() && !o.unhealthy
	var recoverable *drivers.RecoverableError
	switch {
	case o.requested:
		return decision{restart: true, reason: "Restart requested"}
	case success && !t.mustRunOn:
		return decision{reason: "Task completed"}
	case o.exit == nil && o.err != nil && !errors.As(o.err, &recoverable):
		return decision{failed: true, reason: "Error was unrecoverable"}
	case t.policy == nil || t.policy.Attempts == 0:
		return decision{failed: true, reason: "Policy allows no restarts"}
	}
	if now.Sub(t.since) > t.policy.Interval {
		t.count, t.since = 0, now
	}
	t.count++
	if t.count <= t.policy.Attempts {
		return decision{restart: true, delay: jittered(t.policy.Delay), reason: nomad.ReasonWithinPolicy}
	}
	if t.policy.Mode == nomad.RestartPolicyModeDelay {
		rest := max(t.since.Add(t.policy.Interval).Sub(now), 0)
		return decision{restart: true, delay: jittered(rest), reason: fmt.Sprintf(
			"Exceeded allowed attempts %d in interval %s, applying a delay", t.policy.Attempts, t.policy.Interval)}
	}
	return decision{failed: true, reason: fmt.Sprintf(
		"Exceeded allowed attempts %d in interval %s and mode is %q", t.policy.Attempts, t.policy.Interval, t.policy.Mode)}
}

// jittered adds up to 25 %, so that tasks that failed together do not restart together.
func jittered(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d/4+1)
}
