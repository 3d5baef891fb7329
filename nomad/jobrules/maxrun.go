package jobrules

import "github.com/open-nomad/open-nomad/nomad"

// validateMaxRunDuration accepts max_run_duration in jobs whose allocations end by themselves.
func validateMaxRunDuration(tg *nomad.TaskGroup, f *faults, jobType string) {
	if tg.MaxRunDuration == nil {
		return
	}
	if jobType != nomad.JobTypeBatch && jobType != nomad.JobTypeSysBatch {
		f.add("max_run_duration is for batch and sysbatch jobs only, not %s jobs: remove it", jobType)
	}
	if *tg.MaxRunDuration <= 0 {
		f.add("max_run_duration is %s: it must be more than 0", *tg.MaxRunDuration)
	}
}
