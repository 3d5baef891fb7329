package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

const (
	// maxMapped limits the services that the warning about the mapping names.
	maxMapped = 16
	// maxRefused limits the errors about services of Consul.
	maxRefused = 100
)

// mapServices stores the services of provider "consul" as native services, if the servers of the region do so. The
// service keeps the provider of the job file in DeclaredProvider. A job that a caller submits is mapped anew, also if it
// was read from the API. A stored version that is mapped stays mapped in every mode, so that its children and its
// rollback run like itself.
func (w *write) mapServices() error {
	if w.who.wrote() {
		undeclare(w.job)
	}
	if w.consulMode() == consul.Native {
		w.mapped = mappedWarning(w.job.ID, toNative(w.job))
	}
	return nil
}

func (v *View) consulMode() consul.Mode { return v.cfg.Consul.Mode(v.snap) }

// Comparable returns a registered version as its registration would store it now, for a comparison with a new job.
func (v *View) Comparable(old *nomad.Job) *nomad.Job {
	if old == nil || v.consulMode() != consul.Native {
		return old
	}
	out := codec.Copy(old)
	if len(toNative(out)) == 0 {
		return old
	}
	return out
}

// undeclare restores the provider of the job file.
func undeclare(job *nomad.Job) {
	for _, tg := range job.TaskGroups {
		for _, s := range tg.AllServices() {
			if s.DeclaredProvider == nomad.ServiceProviderConsul {
				s.Provider = s.DeclaredProvider
			}
			s.DeclaredProvider = ""
		}
	}
}

// toNative makes services of provider "consul" native, with the constraints of native services. It returns their places.
func toNative(job *nomad.Job) (places []string) {
	for _, tg := range job.TaskGroups {
		had := len(places)
		for _, s := range tg.AllServices() {
			if s.Provider == nomad.ServiceProviderConsul {
				s.Provider, s.DeclaredProvider = nomad.ServiceProviderNomad, nomad.ServiceProviderConsul
				places = append(places, fmt.Sprintf("%q of group %q", s.Name, tg.Name))
			}
		}
		if len(places) == had {
			continue
		}
		tg.Constraints = withoutConsul(tg.Constraints)
		for _, t := range tg.Tasks {
			t.Constraints = withoutConsul(t.Constraints)
		}
		for _, c := range ServiceConstraints(tg) {
			Constrain(tg, c)
		}
	}
	return places
}

// withoutConsul returns the constraints without the one that servers of Nomad add for services of Consul. A job that was
// read from them or restored has it.
func withoutConsul(list []*nomad.Constraint) []*nomad.Constraint {
	implicit := func(c *nomad.Constraint) bool {
		return c != nil && c.LTarget == "${attr.consul.version}" && c.Operand == nomad.ConstraintSemver &&
			(c.RTarget == ">= 1.8.0" || c.RTarget == ">= 1.7.0")
	}
	if !slices.ContainsFunc(list, implicit) {
		return list
	}
	out := slices.DeleteFunc(list, implicit)
	if len(out) == 0 {
		return nil
	}
	return out
}

// mappedWarning returns the warning about services that were made native, or "" if there are none.
func mappedWarning(job string, places []string) string {
	if len(places) == 0 {
		return ""
	}
	more := ""
	if n := len(places) - maxMapped; n > 0 {
		places, more = places[:maxMapped], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("job %q: services with provider \"consul\" are registered natively, not in Consul: %s%s (services-without-consul)",
		job, strings.Join(places, ", "), more)
}

// consulRefused returns errors for the parts of a job that need Consul, unless the mode is native: its services that are
// not mapped, and its consul blocks if the caller wrote the job. The blocks have no effect in a job that runs already.
func (v *View) consulRefused(who Asker, job *nomad.Job) (out []error) {
	mode := v.consulMode()
	if mode == consul.Native {
		return nil
	}
	why := v.consulReason(mode)
	add := func(place, part, remedy string) {
		if len(out) < maxRefused {
			out = append(out, fmt.Errorf("%s: %s, but %s: %s", place, part, why, remedy))
		}
	}
	for _, tg := range job.TaskGroups {
		for _, s := range tg.AllServices() {
			if s.Provider == nomad.ServiceProviderConsul {
				add(fmt.Sprintf("%s, service %q", jobrules.Place(job.ID, tg.Name, ""), s.Name), "provider is \"consul\", which is the default",
					"set provider = \"nomad\", or consul = \"nomad\" in the services block of all servers")
			}
		}
		if !who.wrote() {
			continue
		}
		if tg.Consul != nil {
			add(jobrules.Place(job.ID, tg.Name, ""), "it has a consul block", removeConsul)
		}
		for _, t := range tg.Tasks {
			if t.Consul != nil {
				add(jobrules.Place(job.ID, tg.Name, t.Name), "it has a consul block", removeConsul)
			}
		}
	}
	return out
}

const removeConsul = "remove it, or set consul = \"nomad\" in the services block of all servers"

// consulReason returns why services of Consul are refused.
func (v *View) consulReason(mode consul.Mode) string {
	switch {
	case mode == consul.Refuse:
		return "the servers refuse what needs Consul (consul = \"refuse\" in their services block)"
	case v.cfg.Consul.Configured():
		return "this version cannot register services in Consul yet (the servers have consul = \"consul\" in their services block, or a consul block)"
	}
	return "a node of the region has Consul, in which this version cannot register services yet"
}
