package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// unverifiable returns an error for each service with an identity whose name the servers can never verify: it consists of
// references to what only the client has. Its allocations would fail on every node.
func unverifiable(region string, job *nomad.Job) (out []error) {
	eachIdentifiedService(region, job, func(place string, names *taskenv.Names, s *nomad.Service) {
		for _, ref := range names.References(s.Name) {
			if len(out) < maxRefused && !taskenv.OfNode(ref) && !strings.HasPrefix(ref, "NOMAD_") && !names.Fixed(s.Name) {
				out = append(out, fmt.Errorf("%s: the servers sign no identity for service %q, since they do not have the value of ${%s}: "+
					"add text to the name, such as web-${%s}, or set the variable in the env block of the task", place, s.Name, ref, ref))
				return
			}
		}
	})
	return out
}

// chosenByNode returns a warning for each service with an identity whose name consists of references to the node. The servers
// accept only what the node has registered, but a compromised node can register another value.
func chosenByNode(region string, job *nomad.Job) (out []string) {
	eachIdentifiedService(region, job, func(place string, names *taskenv.Names, s *nomad.Service) {
		refs := names.References(s.Name)
		if len(out) < maxRefused && len(refs) > 0 && !slices.ContainsFunc(refs, func(r string) bool { return !taskenv.OfNode(r) }) &&
			!names.Fixed(s.Name) {
			out = append(out, fmt.Sprintf("%s: the node chooses the name of service %q, so a compromised node can get the identity of any "+
				"service: add text to the name, such as web-%s", place, s.Name, s.Name))
		}
	})
	return out
}

// eachIdentifiedService calls do for each service with an identity and a reference in its name.
func eachIdentifiedService(region string, job *nomad.Job, do func(place string, names *taskenv.Names, s *nomad.Service)) {
	for _, tg := range job.TaskGroups {
		all := func(t *nomad.Task, services []*nomad.Service) {
			names := taskenv.NewNames(taskenv.Subject{Region: region, Alloc: sample(job, tg), Task: t})
			for _, s := range services {
				if s.Identity != nil && strings.Contains(s.Name, "${") {
					do(jobrules.Place(job.ID, tg.Name, t.Name), names, s)
				}
			}
		}
		all(&nomad.Task{}, tg.Services)
		for _, t := range tg.Tasks {
			all(t, t.Services)
		}
	}
}

// sample returns an allocation of a group, without what the scheduler adds.
func sample(job *nomad.Job, tg *nomad.TaskGroup) *nomad.Allocation {
	return &nomad.Allocation{ID: "00000000-0000-0000-0000-000000000000", Name: nomad.AllocName(job.ID, tg.Name, 0),
		Namespace: job.Namespace, JobID: job.ID, TaskGroup: tg.Name, Job: job}
}
