package migrate

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// refusedOptions lists the running jobs whose tasks have options that their driver refuses in this version, a finding for
// each reason. The reasons name the options and have no secrets.
func refusedOptions(s *state.Snapshot) (out []Finding) {
	table, jobs := drivers.Table(), map[string][]string{}
	for j := range s.Jobs(nil) {
		if j.Stopped() || j.Status == nomad.JobStatusDead {
			continue
		}
		for _, g := range j.TaskGroups {
			for _, t := range g.Tasks {
				k := table[t.Driver]
				if k == nil || k.CheckTask == nil {
					continue
				}
				if err := k.CheckTask(t.User, t.Config); err != nil {
					jobs[err.Error()] = append(jobs[err.Error()], j.Namespace+"/"+j.ID)
				}
			}
		}
	}
	for reason, of := range jobs {
		slices.Sort(of)
		of = slices.Compact(of)
		out = append(out, Finding{Name: reason, Count: len(of), Jobs: of, Lost: true,
			Effect: fmt.Sprintf("tasks of %s will not start on clients of this version: %s", plural(len(of), "job"), reason)})
	}
	slices.SortFunc(out, byName)
	return out
}
