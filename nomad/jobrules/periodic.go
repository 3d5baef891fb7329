package jobrules

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/internal/cron"
	"github.com/open-nomad/open-nomad/nomad"
)

// validatePeriodic checks the periodic block of a job. The times of a disabled block are not checked.
func validatePeriodic(j *nomad.Job, f *faults) {
	p := j.Periodic
	if p == nil {
		return
	}
	if j.Type != nomad.JobTypeBatch && j.Type != nomad.JobTypeSysBatch {
		f.add("periodic requires a job of type batch or sysbatch, not %s", j.Type)
	}
	if !p.Enabled {
		return
	}
	if p.SpecType != nomad.PeriodicSpecCron {
		f.add("the spec type of the periodic block is %q: it must be %s", p.SpecType, nomad.PeriodicSpecCron)
	}
	if p.Spec != "" && len(p.Specs) > 0 && !slices.Equal(p.Specs, []string{p.Spec}) {
		f.add("the periodic block has cron and crons: keep one of them")
	}
	times, err := cron.Parse(p.TimeZone, p.Crons()...)
	if err != nil {
		f.add("periodic block: %v", err)
		return
	}
	if times.Next(time.Now()).IsZero() {
		f.add("periodic block: %q never fires again", p.Crons())
	}
}
