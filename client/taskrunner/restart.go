package taskrunner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// outcome is how one run of a task ended, or why there was none.
type outcome struct {
	exit      *drivers.ExitResult // nil when there was no process
	err       error               // of a start or a recovery
	requested bool                // somebody asked for a restart
}

// decision is what becomes of the task.
type decision struct {
	restart bool
	delay   time.Duration
	failed  bool // meaningful when it does not restart
	reason  string
}

// tracker counts restarts against a policy.
type tracker struct {
	policy    *nomad.RestartPolicy
	onSuccess bool
	count     int
	since     time.Time // when the interval began
}

// newTracker takes the task's policy, else its group's.
func newTracker(job *nomad.Job, group *nomad.TaskGroup, task *nomad.Task) *tracker {
	t := &tracker{policy: task.RestartPolicy, onSuccess: true}
	if t.policy == nil && group != nil {
		t.policy = group.RestartPolicy
	}
	switch {
	case task.Lifecycle != nil:
		t.onSuccess = task.Lifecycle.Sidecar
	case job.Type == nomad.JobTypeBatch, job.Type == nomad.JobTypeSysBatch:
		t.onSuccess = false
	}
	return t
}

// decide says what becomes of a task whose run ended at now.
func (t *tracker) decide(now time.Time, o outcome) decision {
	success := o.exit != nil && o.exit.Successful()
	var recoverable *drivers.RecoverableError
	switch {
	case o.requested:
		return decision{restart: true, reason: "restart was requested"}
	case success && !t.onSuccess:
		return decision{reason: "task completed"}
	case o.exit == nil && o.err != nil && !errors.As(o.err, &recoverable):
		return decision{failed: true, reason: "the error cannot be recovered from"}
	case t.policy == nil || t.policy.Attempts == 0:
		return decision{failed: !success, reason: "the policy allows no restart"}
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
			"more than %d attempts in %s: waiting for the interval to end", t.policy.Attempts, t.policy.Interval)}
	}
	return decision{failed: true, reason: fmt.Sprintf(
		"more than %d attempts in %s and mode is %q", t.policy.Attempts, t.policy.Interval, t.policy.Mode)}
}

// jittered adds up to a quarter, so that tasks that fell together do not rise together.
func jittered(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d/4+1)
}
