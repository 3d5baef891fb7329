package periodic

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/internal/cron"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// plan is the next launch of a job. It is computed from the job and its last launch.
type plan struct {
	job        *nomad.Job
	launched   time.Time      // of the last launch in state
	times      *cron.Schedule // nil if the job has no valid times
	next       time.Time      // zero: never
	considered time.Time      // launches up to this time were launched, skipped or refused
}

// agenda holds the plans of the active periodic jobs.
type agenda map[nomad.NamespacedID]*plan

// read updates the agenda from a snapshot. It returns the plans that are due, the earliest first,
// and the earliest time of the others. Changes of what it has read wake ws.
func (a agenda) read(snap *state.Snapshot, ws memdb.WatchSet, now time.Time, log *slog.Logger) (due []*plan, next time.Time) {
	next = now.Add(maxWait)
	seen := make(map[nomad.NamespacedID]bool, len(a))
	for last := range snap.PeriodicLaunches(ws) {
		id := nomad.NamespacedID{Namespace: last.Namespace, ID: last.ID}
		job := snap.Job(ws, last.Namespace, last.ID)
		if job == nil || !job.PeriodicActive() {
			continue
		}
		seen[id] = true
		p := a[id]
		if p == nil {
			p = &plan{}
			a[id] = p
		}
		p.update(job, last.Launch, log)
		switch {
		case p.next.IsZero():
		case !p.next.After(now):
			due = append(due, p)
		case p.next.Before(next):
			next = p.next
		}
	}
	for id := range a {
		if !seen[id] {
			delete(a, id)
		}
	}
	slices.SortStableFunc(due, func(x, y *plan) int { return cmp.Compare(x.next.UnixNano(), y.next.UnixNano()) })
	return due, next
}

// update computes the next launch again if the job, its last launch or considered has changed.
func (p *plan) update(job *nomad.Job, launched time.Time, log *slog.Logger) {
	if p.job != job {
		p.job = job
		times, err := cron.Parse(job.Periodic.TimeZone, job.Periodic.Crons()...)
		if err != nil { // of a server of another build, which accepts more
			log.Error("periodic job will not be launched", "job", job.ID, "namespace", job.Namespace, "err", err)
		}
		p.times, p.next = times, time.Time{}
	} else if p.launched.Equal(launched) && (p.next.IsZero() || p.next.After(p.considered)) {
		return
	}
	p.launched = launched
	if p.times != nil {
		p.next = p.times.Next(latest(launched, p.considered, time.Unix(0, job.SubmitTime)))
	}
}

// launchTime returns the time of a launch that is due: the planned one, or the current second if
// another one is due too.
func (p *plan) launchTime(now time.Time) time.Time {
	if after := p.times.Next(p.next); !after.IsZero() && !after.After(now) {
		return now.Truncate(time.Second)
	}
	return p.next
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}
