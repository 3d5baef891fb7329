package jobs

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// dropped returns an error (409) if a task of the job uses a field that Nomad does not have while servers of the region
// may be of another build. They drop the field: the task would run without a copy of its logs, or with an artifact whose
// signature nobody checked.
func (s *Service) dropped(job *nomad.Job) error {
	for _, p := range places(job) {
		if p.task.LogConfig != nil && len(p.task.LogConfig.Sinks) > 0 {
			if err := s.OnlyOurs(fmt.Sprintf("sinks in the logs block of task %q", p.task.Name)); err != nil {
				return err
			}
		}
		if verifies(p.task) {
			return s.OnlyOurs(fmt.Sprintf("verify in an artifact of task %q", p.task.Name))
		}
	}
	return nil
}

// verifies reports whether an artifact of the task must have a signature.
func verifies(t *nomad.Task) bool {
	return slices.ContainsFunc(t.Artifacts, func(a *nomad.TaskArtifact) bool { return a.Verify != nil })
}

// ofOurClients returns the constraints of tasks that other clients would run in another way: they ignore verify of an
// artifact, and schedule. Only clients of this project report the kind of a driver.
func ofOurClients(tg *nomad.TaskGroup) (out []*nomad.Constraint) {
	for _, t := range tg.Tasks {
		if verifies(t) || t.Schedule != nil {
			out = append(out, ourClient(t))
		}
	}
	return out
}

// ourClient returns the constraint for clients of this project that have the driver of the task.
func ourClient(t *nomad.Task) *nomad.Constraint {
	return &nomad.Constraint{LTarget: "${attr." + drivers.Attribute(t.Driver, drivers.BackendKey) + "}", Operand: nomad.ConstraintAttributeIsSet}
}
