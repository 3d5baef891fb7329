package jobrules

import "github.com/open-nomad/open-nomad/nomad"

const minDiskMB = 10

func validateTaskGroup(tg *nomad.TaskGroup, f *faults, j *nomad.Job) {
	validateName(f, tg.Name)
	switch system := j.Type == nomad.JobTypeSystem || j.Type == nomad.JobTypeSysBatch; {
	case tg.Count < 0:
		f.add("count is %d: it must be 0 or more", tg.Count)
	case j.Type == nomad.JobTypeSystem && tg.Count > 1:
		f.add("count is %d: a group of a %s job runs once on each node, so it must be 1", tg.Count, j.Type)
	case system && (len(tg.Affinities) > 0 || len(tg.Spreads) > 0):
		f.add("affinity and spread blocks are not allowed in %s jobs, which run on every feasible node: remove them", j.Type)
	}
	validateMeta(f, tg.Meta)
	validateConstraints(f, tg.Constraints)
	validateAffinities(f, tg.Affinities)
	validateSpreads(f, tg.Spreads)
	validateRestartPolicy(tg.RestartPolicy, f)
	if r := tg.RestartPolicy; exceedsInterval(r) {
		f.add("restart cannot make %d attempts with a delay of %s in an interval of %s: increase interval", r.Attempts, r.Delay, r.Interval)
	}
	validateReschedulePolicy(tg.ReschedulePolicy, f, j.Type)
	validateUpdateStrategy(tg.Update, f, j.Type, highestCount(tg))
	validateMigrateStrategy(tg.Migrate, f)
	validateDisconnect(tg.Disconnect, f, j.Type)
	validateAmounts(f, amount{"size of ephemeral_disk", tg.EphemeralDisk.SizeMB})
	if tg.EphemeralDisk.SizeMB < minDiskMB {
		f.add("size of ephemeral_disk is %d MB: the minimum is %d MB", tg.EphemeralDisk.SizeMB, minDiskMB)
	}
	if tg.ShutdownDelay != nil && *tg.ShutdownDelay < 0 {
		f.add("shutdown_delay is negative")
	}
	validateMaxRunDuration(tg, f, j.Type)
	validateScaling(tg, f, j)
	validateNetworks(tg, f)
	consulBlocks(tg, f)
	validateServices(tg, f)
	validateVolumes(tg, f, j)
	validateCSIPlugins(tg, f)
	validateMountOwners(tg, f)
	validateTasks(tg, f)
}

func validateMigrateStrategy(m *nomad.MigrateStrategy, f *faults) {
	if m == nil {
		return
	}
	if m.HealthCheck != nomad.MigrateStrategyHealthChecks && m.HealthCheck != nomad.MigrateStrategyHealthStates {
		f.add("health_check of migrate is %q: use checks or task_states", m.HealthCheck)
	}
	if m.MaxParallel < 0 {
		f.add("max_parallel of migrate is %d: it must be 0 or more", m.MaxParallel)
	}
	switch {
	case m.MinHealthyTime < 0:
		f.add("min_healthy_time of migrate is negative")
	case m.MinHealthyTime >= m.HealthyDeadline:
		f.add("min_healthy_time of migrate is %s, which must be less than its healthy_deadline of %s", m.MinHealthyTime, m.HealthyDeadline)
	}
}

func validateDisconnect(d *nomad.DisconnectStrategy, f *faults, jobType string) {
	if d == nil {
		return
	}
	if d.LostAfter < 0 {
		f.add("lost_after of disconnect is negative")
	}
	if stop := d.StopOnClientAfter; stop != nil {
		switch {
		case jobType != nomad.JobTypeService && jobType != nomad.JobTypeBatch:
			f.add("stop_on_client_after of disconnect is for service and batch jobs only, not %s jobs: remove it", jobType)
		case *stop < 0:
			f.add("stop_on_client_after of disconnect is negative")
		case d.LostAfter > 0:
			f.add("disconnect has lost_after and stop_on_client_after, which exclude each other: remove one")
		}
	}
	switch d.Reconcile {
	case nomad.ReconcileKeepOriginal, nomad.ReconcileKeepReplacement, nomad.ReconcileBestScore, nomad.ReconcileLongestRunning:
	default:
		f.add("reconcile of disconnect is %q: use keep_original, keep_replacement, best_score or longest_running", d.Reconcile)
	}
}

func validateRestartPolicy(r *nomad.RestartPolicy, f *faults) {
	switch r.Mode {
	case nomad.RestartPolicyModeDelay, nomad.RestartPolicyModeFail:
	default:
		f.add("mode of restart is %q: use delay or fail", r.Mode)
	}
	switch {
	case r.Attempts < 0 || r.Interval < 0 || r.Delay < 0:
		f.add("restart has a negative number: attempts, interval and delay must be 0 or more")
	case r.Attempts == 0 && r.Mode == nomad.RestartPolicyModeDelay:
		f.add("restart has mode delay and 0 attempts, so it would never restart: set attempts or use mode fail")
	case r.Attempts > 0 && r.Interval < nomad.RestartPolicyMinInterval:
		f.add("interval of restart is %s: the minimum is %s", r.Interval, nomad.RestartPolicyMinInterval)
	}
}

// exceedsInterval reports whether the attempts of a valid policy take longer than its interval, so that they are never
// exhausted. This is an error in a group. For a task it is a warning, because Nomad 2.0 accepts it.
func exceedsInterval(r *nomad.RestartPolicy) bool {
	return r.Attempts > 0 && r.Delay > 0 && r.Interval >= nomad.RestartPolicyMinInterval && int64(r.Attempts) > int64(r.Interval/r.Delay)
}

func validateReschedulePolicy(r *nomad.ReschedulePolicy, f *faults, jobType string) {
	if r == nil {
		return
	}
	if jobType == nomad.JobTypeSystem || jobType == nomad.JobTypeSysBatch {
		f.add("reschedule is not allowed in %s jobs, whose allocations are bound to their nodes: remove it", jobType)
		return
	}
	if r.Attempts < 0 {
		f.add("attempts of reschedule is %d: it must be 0 or more", r.Attempts)
	}
	if r.Attempts <= 0 && !r.Unlimited {
		return // rescheduling is off; the other fields have no effect
	}
	switch r.DelayFunction {
	case "constant":
	case "exponential", "fibonacci":
		if r.MaxDelay < r.Delay {
			f.add("max_delay of reschedule is %s, less than its delay of %s", r.MaxDelay, r.Delay)
		}
	default:
		f.add("delay_function of reschedule is %q: use constant, exponential or fibonacci", r.DelayFunction)
	}
	if r.Delay < nomad.ReschedulePolicyMinDelay {
		f.add("delay of reschedule is %s: the minimum is %s", r.Delay, nomad.ReschedulePolicyMinDelay)
	}
	if r.Unlimited {
		return // regardless of the attempts; see Warnings
	}
	if r.Interval < nomad.ReschedulePolicyMinInterval {
		f.add("interval of reschedule is %s: the minimum is %s", r.Interval, nomad.ReschedulePolicyMinInterval)
	} else if r.Delay > 0 && int64(r.Attempts) > int64(r.Interval/r.Delay) {
		f.add("reschedule cannot make %d attempts with a delay of %s in an interval of %s: increase interval", r.Attempts, r.Delay, r.Interval)
	}
}

// highestCount returns the count of a group, or the highest count that its scaling block allows. The
// count of a job that keeps its counts changes between registrations.
func highestCount(tg *nomad.TaskGroup) int {
	if tg.Scaling == nil {
		return tg.Count
	}
	return max(tg.Count, int(min(tg.Scaling.Max, nomad.JobDefaultMaxCount)))
}

// validateCanaries rejects canaries that no deployment could place or promote. A group with a count of 0 has no
// deployment.
func validateCanaries(u *nomad.UpdateStrategy, f *faults, jobType string, count int) {
	switch {
	case u.Canary < 0:
		f.add("canary of update is %d: it must be 0 or more", u.Canary)
	case jobType == nomad.JobTypeService && count > 0 && u.Canary > count:
		f.add("canary of update is %d, more than the count of %d", u.Canary, count)
	case u.AutoPromote && u.Canary == 0:
		f.add("auto_promote of update requires canary to be more than 0")
	}
}

func validateUpdateStrategy(u *nomad.UpdateStrategy, f *faults, jobType string, count int) {
	if u == nil || jobType == nomad.JobTypeBatch || jobType == nomad.JobTypeSysBatch {
		return
	}
	switch u.HealthCheck {
	case nomad.UpdateStrategyHealthCheck_Checks, nomad.UpdateStrategyHealthCheck_TaskStates, nomad.UpdateStrategyHealthCheck_Manual:
	default:
		f.add("health_check of update is %q: use checks, task_states or manual", u.HealthCheck)
	}
	if u.MinHealthyTime < 0 || u.ProgressDeadline < 0 || u.Stagger < 0 {
		f.add("update has a negative duration: min_healthy_time, progress_deadline and stagger must be 0 or more")
	}
	if u.MaxParallel < 0 {
		f.add("max_parallel of update is %d: it must be 0 or more", u.MaxParallel)
	}
	validateCanaries(u, f, jobType, count)
	switch {
	case u.HealthyDeadline <= 0:
		f.add("healthy_deadline of update must be more than 0")
	case u.MinHealthyTime >= u.HealthyDeadline:
		f.add("min_healthy_time of update is %s, which must be less than its healthy_deadline of %s", u.MinHealthyTime, u.HealthyDeadline)
	case u.ProgressDeadline > 0 && u.HealthyDeadline >= u.ProgressDeadline:
		f.add("healthy_deadline of update is %s, which must be less than its progress_deadline of %s", u.HealthyDeadline, u.ProgressDeadline)
	}
}
