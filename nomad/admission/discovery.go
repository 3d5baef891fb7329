package admission

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Constrain adds a constraint to a group unless the group has it. A job that was read from the API and submitted again
// already has it.
func Constrain(tg *nomad.TaskGroup, c *nomad.Constraint) {
	if !slices.ContainsFunc(tg.Constraints, func(o *nomad.Constraint) bool { return o != nil && *o == *c }) {
		tg.Constraints = append(tg.Constraints, c)
	}
}

// ServiceConstraints returns the constraints for the native services of a group and their checks. Clients of Nomad run no
// scripts as checks of native services, and have no gRPC checks and no thresholds for them.
func ServiceConstraints(tg *nomad.TaskGroup) []*nomad.Constraint {
	services := slices.DeleteFunc(tg.AllServices(), inConsul)
	if len(services) == 0 {
		return nil
	}
	out := []*nomad.Constraint{{LTarget: "${attr.nomad.service_discovery}", RTarget: "true", Operand: "="}}
	if slices.ContainsFunc(services, func(s *nomad.Service) bool { return len(s.Checks) > 0 }) {
		out = append(out, &nomad.Constraint{LTarget: "${attr.nomad.version}", RTarget: ">= 1.4.0", Operand: nomad.ConstraintSemver})
	}
	ours := slices.ContainsFunc(services, func(s *nomad.Service) bool { return slices.ContainsFunc(s.Checks, onlyOurs) })
	for i, t := range tg.Tasks {
		if tg.RunsScripts(t) || ours && i == 0 { // one task of each group is enough to choose the client
			out = append(out, OurClient(t))
		}
	}
	return out
}

// onlyOurs reports whether only clients of this project run a check of a native service as its fields say.
func onlyOurs(c *nomad.ServiceCheck) bool {
	return c.Type == nomad.ServiceCheckGRPC || c.SuccessBeforePassing > 0 || c.FailuresBeforeCritical > 0 || c.FailuresBeforeWarning > 0 ||
		c.TLSServerName != "" || c.OnUpdate == nomad.OnUpdateIgnoreWarnings || c.CheckRestart != nil && c.CheckRestart.IgnoreWarnings
}

// OurClient returns the constraint for clients of this project that have the driver of the task. Only they report the
// kind of a driver.
func OurClient(t *nomad.Task) *nomad.Constraint {
	return &nomad.Constraint{LTarget: "${attr." + drivers.Attribute(t.Driver, drivers.BackendKey) + "}",
		Operand: nomad.ConstraintAttributeIsSet}
}
