package reconcile

import (
	"slices"
	"time"
)

// reportDelay is how long reports are collected. All services fail at once when Consul does.
const reportDelay = time.Second

// batch are the services of an owner that have failed, or that are registered again.
type batch struct {
	owner      string
	registered bool
	states     []State
}

// report makes Run call Config.Failed about a service. The caller holds mu.
func (r *Reconciler) report(owner string, s State) {
	i := slices.IndexFunc(r.reports, func(b batch) bool { return b.owner == owner && b.registered == s.Registered })
	if i < 0 {
		i = len(r.reports)
		r.reports = append(r.reports, batch{owner: owner, registered: s.Registered})
	}
	r.reports[i].states = append(r.reports[i].states, s)
	if r.reportAt.IsZero() {
		r.reportAt = time.Now().Add(reportDelay)
		r.wake.Send()
	}
}

// deliverReports makes the calls of Config.Failed that are due.
func (r *Reconciler) deliverReports() {
	r.mu.Lock()
	if r.reportAt.IsZero() || time.Now().Before(r.reportAt) {
		r.mu.Unlock()
		return
	}
	due := r.reports
	r.reports, r.reportAt = nil, time.Time{}
	r.mu.Unlock()
	for _, b := range due {
		if b.registered {
			r.cfg.Log.Info("services are registered in consul again", "owner", b.owner, "services", len(b.states))
		}
		if r.cfg.Failed != nil {
			r.cfg.Failed(b.owner, b.states)
		}
	}
}
