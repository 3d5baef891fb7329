package check

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// AwaitConsul is the output of a check that Consul does not have yet.
const AwaitConsul = "nomad: waiting for Consul"

// Consul has the checks of services of provider consul (reconcile.Reconciler).
type Consul interface {
	// Watch calls changed with the statuses of the checks of an owner after each change, until end is called. Checks that
	// Consul does not have are left out.
	Watch(owner string, changed func([]reconcile.Status)) (end func())
	// Update sets the status of a script check. It does not wait.
	Update(s reconcile.Status)
}

// statuses has the status of a check for each status in Consul.
var statuses = map[string]message.CheckStatus{
	api.HealthPassing:  message.CheckSuccess,
	api.HealthWarning:  message.CheckWarning,
	api.HealthCritical: message.CheckFailure,
}

// inConsul makes Consul determine the status of the check.
func (t *Target) inConsul(w *service.Workload, s *nomad.Service, c *nomad.ServiceCheck) {
	t.InConsul, t.Owner = true, service.Owner(w.Alloc.ID, w.Name())
	t.ID = message.CheckID(consul.CheckID(w, s, c))
	t.Type = strings.ToLower(t.Type)
}

func consulService(s *nomad.Service) bool {
	return cmp.Or(s.Provider, nomad.ServiceProviderConsul) == nomad.ServiceProviderConsul
}

// sidecarTargets returns the checks of the sidecar of a service. The job does not declare them, so on_update and
// check_restart have no effect: an allocation is healthy when all of them are passing.
func sidecarTargets(w *service.Workload, s *nomad.Service) (out []*Target) {
	for _, c := range connect.SidecarChecks(s, consul.ServiceID(w, s)) {
		out = append(out, &Target{ID: message.CheckID(c.ID), Mode: message.Healthiness, Name: c.Name,
			Service: reconcile.SidecarID(w.Env.Expand(s.Name)), Group: w.Alloc.Name, Task: w.Task, Of: keyOf(w, s),
			InConsul: true, Owner: service.Owner(w.Alloc.ID, w.Name())})
	}
	return out
}

// runs reports whether this agent runs the check.
func (t *Target) runs() bool { return !t.InConsul || t.Type == nomad.ServiceCheckScript }

// first returns the result before the first one.
func (t *Target) first() *message.CheckQueryResult {
	switch {
	case t.InConsul:
		return t.result(message.CheckPending, 0, AwaitConsul)
	case t.Initial != "":
		return t.result(t.Initial, 0, Waiting)
	}
	return t.result(message.CheckPending, 0, Waiting)
}

// follow begins and ends the reports of Consul, and runs the scripts of Consul's checks at once whose task has started.
// attached has the calls of Attach by task.
func (w *watch) follow(targets []*Target, attached map[string]int) {
	if w.set.cfg.Consul == nil {
		return
	}
	owners := map[string]bool{}
	for _, t := range targets {
		if !t.InConsul {
			continue
		}
		owners[t.Owner] = true
		if r := w.running[t.ID]; r != nil && r.attached != attached[t.In] {
			r.attached = attached[t.In]
			r.now.Send()
		}
	}
	for owner := range owners {
		if w.reports[owner] == nil {
			w.reports[owner] = w.set.cfg.Consul.Watch(owner, func(s []reconcile.Status) { w.set.report(w.id, owner, s) })
		}
	}
	for owner, end := range w.reports {
		if !owners[owner] {
			end()
			delete(w.reports, owner)
		}
	}
}

// report records the statuses of the checks of an owner in Consul. A check that Consul does not have is pending. Followers
// are not called, since the health of native services does not depend on these checks.
func (s *Set) report(allocID, owner string, reported []reconcile.Status) {
	byID := map[string]reconcile.Status{}
	for _, r := range reported {
		byID[r.CheckID] = r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.allocs[allocID]; a != nil {
		a.reported[owner] = byID
		s.apply(a, owner)
	}
}

// apply updates the results of an owner's checks by what Consul has reported. The caller holds mu.
func (s *Set) apply(a *alloc, owner string) {
	for _, t := range a.inConsul(owner) {
		c := a.checks[t.ID]
		if c == nil {
			continue
		}
		result := t.first()
		if r, ok := a.reported[owner][a.idOf(t)]; ok {
			result = t.result(cmp.Or(statuses[r.Status], message.CheckFailure), 0, clip([]byte(r.Output)))
		}
		if result.Status != c.latest.Status {
			s.cfg.Log.Debug("status of a check in Consul has changed", "check", string(t.ID), "status", string(result.Status))
		}
		if result.Status != c.latest.Status || result.Output != c.latest.Output {
			c.latest, c.last = result, result
		}
	}
}

// inConsul returns the checks of an owner in Consul, in the order of the job.
func (a *alloc) inConsul(owner string) (out []*Target) {
	for _, t := range a.targets {
		if t.InConsul && t.Owner == owner {
			out = append(out, t)
		}
	}
	return out
}

// idOf returns the ID of a check in Consul.
func (a *alloc) idOf(t *Target) string { return cmp.Or(a.renamed[t.ID], string(t.ID)) }

// Registered sets the IDs that the checks of a workload have in Consul. They differ from those of Observe if a service uses
// variables that hooks of the task have set.
func (s *Set) Registered(w *service.Workload) {
	owner := service.Owner(w.Alloc.ID, w.Name())
	registered := Targets(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.allocs[w.Alloc.ID]
	if a == nil {
		return
	}
	observed := a.inConsul(owner)
	if len(observed) != len(registered) {
		return // of another version of the job, whose registration follows
	}
	for i, t := range observed {
		delete(a.renamed, t.ID)
		if id := registered[i].ID; id != t.ID {
			a.renamed[t.ID] = string(id)
		}
	}
	s.apply(a, owner)
}

// send sends the result of a script to Consul, which reports it back. Without a task nothing is sent, and Consul makes the
// check critical when its TTL ends.
func (s *Set) send(allocID string, t *Target, r *message.CheckQueryResult) {
	if r == nil || s.cfg.Consul == nil {
		return
	}
	id := s.idInConsul(allocID, t)
	for status, of := range statuses {
		if of == r.Status {
			s.cfg.Consul.Update(reconcile.Status{CheckID: id, Status: status, Output: r.Output})
		}
	}
}

func (s *Set) idInConsul(allocID string, t *Target) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.allocs[allocID]; a != nil {
		return a.idOf(t)
	}
	return string(t.ID)
}

// timedOut returns the result of a script that did not end in time. In Consul its text is that of Nomad.
func (t *Target) timedOut(err error) *message.CheckQueryResult {
	if t.InConsul {
		return t.failure(err)
	}
	return t.failure(fmt.Errorf("the script did not end within %s", t.Timeout))
}
