package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/state"
	plugin "github.com/open-nomad/open-nomad/plugins/drivers"
)

// Unprivileged are the drivers whose tasks need privileged = true in this version, and the jobs
// that have such tasks without it.
type Unprivileged struct {
	Drivers []string // sorted
	Jobs    []string // "namespace/id", sorted
}

// legacy returns the drivers with drivers.LegacyOption.
func (u *Unprivileged) legacy() (out []string) {
	table := drivers.Table()
	for _, name := range u.Drivers {
		if k := table[name]; k != nil && k.HasLegacyOption() {
			out = append(out, name)
		}
	}
	return out
}

// unprivileged finds the running jobs with tasks that need privilege without having it.
func unprivileged(s *state.Snapshot) *Unprivileged {
	out := &Unprivileged{Drivers: []string{}, Jobs: []string{}}
	names := kinds.Table(drivers.Table()).Names(nil)
	for j := range s.Jobs(nil) {
		if j.Stopped() || j.Status == nomad.JobStatusDead {
			continue
		}
		for _, g := range j.TaskGroups {
			for _, t := range g.Tasks {
				if !t.Privileged && names.Needs(t) != "" {
					out.Drivers, out.Jobs = append(out.Drivers, t.Driver), append(out.Jobs, j.Namespace+"/"+j.ID)
				}
			}
		}
	}
	slices.Sort(out.Drivers)
	slices.Sort(out.Jobs)
	out.Drivers, out.Jobs = slices.Compact(out.Drivers), slices.Compact(out.Jobs)
	return out
}

// privilegeSteps returns the steps that keep such jobs running: one for the drivers with the option, and
// one for the others.
func (r *Report) privilegeSteps() []Step {
	u := r.Unprivileged
	if len(u.Jobs) == 0 {
		return nil
	}
	var steps []Step
	jobs := plural(len(u.Jobs), "job")
	legacy := u.legacy()
	if len(legacy) > 0 {
		steps = append(steps, Step{Text: fmt.Sprintf("Set %s = true in the plugin config of %s on the new clients: "+
			"their tasks have no privileged = true (%s). When all servers run open-nomad, register these jobs again "+
			"as a caller with %s in their namespace: the servers add the line. Then remove the option.",
			plugin.LegacyOption, strings.Join(legacy, ", "), jobs, acl.PrivilegedExecution)})
	}
	others := slices.DeleteFunc(slices.Clone(u.Drivers), func(name string) bool { return slices.Contains(legacy, name) })
	if len(others) == 0 {
		return steps
	}
	return append(steps, Step{Text: fmt.Sprintf("When all servers run open-nomad, register the jobs with tasks of "+
		"%s that need privileged = true (%s) as a caller with %s in their namespace: the servers add the line. "+
		"Until then new clients refuse these tasks.", strings.Join(others, ", "), jobs, acl.PrivilegedExecution)})
}
