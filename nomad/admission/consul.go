package admission

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/mesh"
)

// maxRefused limits the errors about services of Consul.
const maxRefused = 100

// consul prepares a job for Consul, or for a region without it: see package nomad/consul.
//
// Without Consul, services of provider "consul" are stored as native services. A service keeps the provider of the job file
// in DeclaredProvider. A job that a caller submits is mapped anew, also if it was read from the API. A stored version
// that is mapped stays mapped in every mode, so that its children and its rollback run like itself.
//
// With Consul, a submitted job gets what its services and tasks need: see consuljob.go. A version that is derived from a
// stored one remains as it was stored.
func (w *write) consul() error {
	if w.who.wrote() {
		undeclare(w.job)
	}
	switch w.consulMode() {
	case consul.Native:
		w.mapped = mappedWarning(w.job.ID, toNative(w.job))
	case consul.Consul:
		if w.who.submits() {
			w.toConsul()
		}
	}
	return nil
}

func (v *View) consulMode() consul.Mode { return v.cfg.Consul.Mode(v.snap) }

// consulFaults returns the errors about the parts of a job that need Consul.
func (v *View) consulFaults(who Asker, job *nomad.Job) []error {
	switch v.consulMode() {
	case consul.Native:
		return jobrules.NeedsConsul(job)
	case consul.Consul:
		return slices.Concat(jobrules.OtherCluster(job), mixedProviders(job), mesh.Validate(job), v.gatewayFaults(job),
			unverifiable(v.cfg.Region, job))
	}
	return append(consulRefused(who, job), jobrules.NeedsConsul(job)...)
}

// mixedProviders returns an error for each group with services in Consul and in the native catalog.
func mixedProviders(job *nomad.Job) (out []error) {
	for _, tg := range job.TaskGroups {
		services := tg.AllServices()
		if slices.ContainsFunc(services, func(s *nomad.Service) bool { return s.Provider != services[0].Provider }) {
			out = append(out, fmt.Errorf("%s: Multiple service providers used: task group services must use the same provider",
				jobrules.Place(job.ID, tg.Name, "")))
		}
	}
	return out
}

// consulRefused returns the errors of servers that refuse what needs Consul: the services that are not mapped, and the consul
// blocks if the caller wrote the job. The blocks have no effect in a job that runs already.
func consulRefused(who Asker, job *nomad.Job) (out []error) {
	const why = "the servers refuse what needs Consul (consul = \"refuse\" in their services block)"
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
