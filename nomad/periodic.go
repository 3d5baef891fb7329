package nomad

import (
	"strconv"
	"strings"
	"time"
)

// PeriodicLaunchSuffix separates the parent's ID from the rest in the ID of a periodic job's child.
const PeriodicLaunchSuffix = "/periodic-"

// PeriodicConfig makes a job a template. It runs at the times of a cron expression.
type PeriodicConfig struct {
	Enabled         bool
	Spec            string
	Specs           []string
	SpecType        string
	ProhibitOverlap bool
	TimeZone        string
}

// PeriodicLaunch is the time of the last launch of a periodic job. Before the first launch it is
// the time at which the job was registered.
type PeriodicLaunch struct {
	ID          string // of the job
	Namespace   string
	Launch      time.Time
	CreateIndex uint64
	ModifyIndex uint64
}

// PeriodicActive reports whether a leader launches children of the job: it is periodic, enabled,
// not stopped and not parameterized.
func (j *Job) PeriodicActive() bool {
	return j.IsPeriodic() && j.Periodic.Enabled && !j.Stopped() && !j.IsParameterized()
}

// PeriodicID splits the ID of a child of a periodic job at PeriodicLaunchSuffix.
func PeriodicID(id string) (parent, child string, ok bool) {
	return strings.Cut(id, PeriodicLaunchSuffix)
}

// LaunchTime returns the launch time in the ID of a child of the periodic job parent, and false
// if the ID has none.
func LaunchTime(parent, child string) (time.Time, bool) {
	text, ok := strings.CutPrefix(child, parent+PeriodicLaunchSuffix)
	seconds, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || seconds < 0 {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}

// Crons returns the cron expressions: either Specs or the only one, Spec.
func (p *PeriodicConfig) Crons() []string {
	if len(p.Specs) == 0 && p.Spec != "" {
		return []string{p.Spec}
	}
	return p.Specs
}

// PeriodicSpecCron is the only type of the times of a periodic job.
const PeriodicSpecCron = "cron"

// PeriodicChildID returns the ID of the child of the job that is launched at a time.
func PeriodicChildID(parent string, at time.Time) string {
	return parent + PeriodicLaunchSuffix + strconv.FormatInt(at.Unix(), 10)
}
