package taskrunner

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var (
	well      = outcome{exit: &drivers.ExitResult{}}
	badly     = outcome{exit: &drivers.ExitResult{ExitCode: 1}}
	killed9   = outcome{exit: &drivers.ExitResult{ExitCode: 137, Signal: 9}}
	noMemory  = outcome{exit: &drivers.ExitResult{OOMKilled: true}}
	broken    = outcome{err: errors.New("no such command")}
	transient = outcome{err: &drivers.RecoverableError{Err: errors.New("try again")}}
	asked     = outcome{exit: &drivers.ExitResult{ExitCode: 143, Signal: 15}, requested: true}
	unhealthy = outcome{exit: &drivers.ExitResult{}, unhealthy: true}
)

func TestDecide(t *testing.T) {
	const again, ended, failed = "again", "ended", "failed"
	policy := func(attempts int, mode string) *nomad.RestartPolicy {
		return &nomad.RestartPolicy{Attempts: attempts, Interval: time.Minute, Delay: 10 * time.Second, Mode: mode}
	}
	prestart := &nomad.TaskLifecycleConfig{Hook: "prestart"}
	sidecar := &nomad.TaskLifecycleConfig{Hook: "prestart", Sidecar: true}
	for _, tc := range []struct {
		name      string
		jobType   string
		lifecycle *nomad.TaskLifecycleConfig
		policy    *nomad.RestartPolicy
		outcome   outcome
		want      string
	}{
		{"batch well", "batch", nil, policy(3, "fail"), well, ended},
		{"batch badly", "batch", nil, policy(3, "fail"), badly, again},
		{"batch killed", "batch", nil, policy(3, "fail"), killed9, again},
		{"batch out of memory", "batch", nil, policy(3, "fail"), noMemory, again},
		{"batch badly, no restarts", "batch", nil, policy(0, "fail"), badly, failed},
		{"sysbatch well", "sysbatch", nil, policy(3, "fail"), well, ended},
		{"service well", "service", nil, policy(3, "fail"), well, again},
		{"service well, no restarts", "service", nil, policy(0, "fail"), well, failed},
		{"system well", "system", nil, policy(3, "fail"), well, again},
		{"service prestart well", "service", prestart, policy(3, "fail"), well, ended},
		{"batch sidecar well", "batch", sidecar, policy(3, "fail"), well, again},
		{"no policy", "service", nil, nil, badly, failed},
		{"start broken", "service", nil, policy(3, "fail"), broken, failed},
		{"start broken in delay mode", "service", nil, policy(3, "delay"), broken, failed},
		{"start transient", "service", nil, policy(3, "fail"), transient, again},
		{"start transient, no restarts", "service", nil, policy(0, "fail"), transient, failed},
		{"unhealthy batch", "batch", nil, policy(3, "fail"), unhealthy, again},
		{"unhealthy, no restarts", "service", nil, policy(0, "fail"), unhealthy, failed},
		{"requested", "batch", nil, policy(0, "fail"), asked, again},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTracker(&nomad.Job{Type: tc.jobType}, nil, &nomad.Task{RestartPolicy: tc.policy, Lifecycle: tc.lifecycle})
			d := tr.decide(time.Now(), tc.outcome)
			got := map[bool]string{true: failed, false: ended}[d.failed]
			if d.restart {
				got = again
			}
			if got != tc.want {
				t.Errorf("decide() = %+v, want %s", d, tc.want)
			}
			if d.reason == "" {
				t.Error("no reason given")
			}
		})
	}
}

func TestDecideCounts(t *testing.T) {
	policy := &nomad.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: 8 * time.Second, Mode: "fail"}
	group := &nomad.TaskGroup{RestartPolicy: policy}
	now := time.Now()
	tr := newTracker(&nomad.Job{Type: "service"}, group, &nomad.Task{})
	for i, step := range []struct {
		after   time.Duration
		restart bool
	}{
		{0, true}, {10 * time.Second, true}, {20 * time.Second, false},
		{61 * time.Second, true}, // a new interval
		{70 * time.Second, true}, {80 * time.Second, false},
	} {
		d := tr.decide(now.Add(step.after), badly)
		if d.restart != step.restart {
			t.Errorf("step %d after %v: restart = %t, want %t", i, step.after, d.restart, step.restart)
		}
		if d.restart && (d.delay < 8*time.Second || d.delay > 10*time.Second) {
			t.Errorf("step %d: delay = %v, want 8s and up to a quarter more", i, d.delay)
		}
		if !d.restart && !d.failed {
			t.Errorf("step %d: not failed", i)
		}
	}

	policy.Mode = nomad.RestartPolicyModeDelay
	tr = newTracker(&nomad.Job{Type: "service"}, group, &nomad.Task{})
	for _, after := range []time.Duration{0, 10 * time.Second} {
		tr.decide(now.Add(after), badly)
	}
	d := tr.decide(now.Add(20*time.Second), badly)
	if !d.restart || d.delay < 40*time.Second || d.delay > 50*time.Second {
		t.Errorf("mode delay: decide() = %+v, want a restart after the interval", d)
	}
}

func TestTaskPolicyBeforeGroups(t *testing.T) {
	group := &nomad.TaskGroup{RestartPolicy: &nomad.RestartPolicy{Attempts: 0, Mode: "fail"}}
	task := &nomad.Task{RestartPolicy: &nomad.RestartPolicy{Attempts: 1, Mode: "fail", Interval: time.Minute}}
	if d := newTracker(&nomad.Job{Type: "batch"}, group, task).decide(time.Now(), badly); !d.restart {
		t.Errorf("decide() = %+v, want the task's own policy", d)
	}
}

// TestDecide_EndTable holds the restart policy against the table in nomad/ending.go: without a restart, the end of a task
// that must run on is a failure, whatever its exit code.
func TestDecide_EndTable(t *testing.T) {
	lifecycles := map[string]*nomad.TaskLifecycleConfig{"main": nil}
	for _, hook := range []string{nomad.TaskLifecycleHookPrestart, nomad.TaskLifecycleHookPoststart, nomad.TaskLifecycleHookPoststop} {
		lifecycles[hook] = &nomad.TaskLifecycleConfig{Hook: hook}
		lifecycles[hook+" sidecar"] = &nomad.TaskLifecycleConfig{Hook: hook, Sidecar: true}
	}
	policies := map[string]*nomad.RestartPolicy{"none": nil, "no attempts": {Mode: nomad.RestartPolicyModeFail}}
	for _, typ := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		for kind, l := range lifecycles {
			for policy, p := range policies {
				task := &nomad.Task{Lifecycle: l, RestartPolicy: p}
				d := newTracker(&nomad.Job{Type: typ}, nil, task).decide(time.Now(), well)
				if want := nomad.MustRunOn(typ, l); d.restart || d.failed != want {
					t.Errorf("%s task of a %s job, policy %s, exit 0: %+v, want failed %t", kind, typ, policy, d, want)
				}
				d = newTracker(&nomad.Job{Type: typ}, nil, task).decide(time.Now(), badly)
				if d.restart || !d.failed {
					t.Errorf("%s task of a %s job, policy %s, exit 1: %+v, want failed", kind, typ, policy, d)
				}
			}
		}
	}
}
