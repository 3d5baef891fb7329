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

// maxMapped limits the services that the warning about the mapping names.
const maxMapped = 16

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

// NativeFaults returns the errors that servers without Consul have about the file of a stored job, and servers with Consul
// have not. Without one, the servers map the services when the file is registered. Tasks that the servers added for the
// service mesh are not in the file.
func NativeFaults(stored *nomad.Job) []error {
	job := codec.Copy(stored)
	jobrules.Canonicalize(job) // Nomad may have other defaults
	for _, tg := range job.TaskGroups {
		for _, t := range tg.Tasks {
			t.Kind = ""
		}
	}
	before := faultsOf(jobrules.Validate(job))
	undeclare(job)
	toNative(job)
	return slices.DeleteFunc(append(faultsOf(jobrules.Validate(job)), jobrules.NeedsConsul(job)...), func(err error) bool {
		return slices.ContainsFunc(before, func(b error) bool { return b.Error() == err.Error() })
	})
}

// faultsOf returns the individual errors of jobrules.Validate.
func faultsOf(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// undeclare restores the provider of the job file.
func undeclare(job *nomad.Job) {
	for _, tg := range job.TaskGroups {
		for _, s := range tg.AllServices() {
			if s.DeclaredProvider == nomad.ServiceProviderConsul {
				s.Provider = s.DeclaredProvider
				s.Namespace = jobrules.ServiceNamespace(s, job)
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
				s.Namespace = jobrules.ServiceNamespace(s, job)
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
