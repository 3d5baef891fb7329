package jobs

import (
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// isolated rejects a job with a task that cannot have the isolation level that it or its namespace
// requires, on any node. A job that uses levels is also rejected beside servers of other builds,
// because their schedulers ignore them.
func (s *Service) isolated(ns *nomad.Namespace, job *nomad.Job) error {
	if usesIsolation(ns, job) {
		if err := s.OnlyOurs(fmt.Sprintf("isolation of job %q", job.ID)); err != nil {
			return err
		}
	}
	return isolated(ns, job, s.names())
}

// isolated is Service.isolated without the check of the servers. Without a namespace it checks the
// levels of the tasks only.
func isolated(ns *nomad.Namespace, job *nomad.Job, names *kinds.Names) error {
	var list []error
	for _, p := range places(job) {
		need := kinds.Required(ns, p.task)
		who := "it"
		if need > kinds.Required(nil, p.task) {
			who = fmt.Sprintf("namespace %q", ns.Name)
		}
		if why := below(p, need, names); why != "" {
			list = append(list, nomad.Errorf(400, "%s: %s requires isolation %q, %s", p, who, need, why))
		}
	}
	return errors.Join(list...)
}

// below returns the reason why a task cannot have a level on any node, "" if it can.
func below(p place, need drivers.Level, names *kinds.Names) string {
	i := kinds.Isolation(names.Kind(p.task.Driver), p.task)
	lacks := i.Lacks(need)
	if len(lacks) == 0 {
		return ""
	}
	return fmt.Sprintf("driver %q gives it %q at most, which lacks: %s", p.task.Driver, i.Level(), drivers.Texts(lacks))
}

// usesIsolation reports whether servers must enforce or claim levels for a job.
func usesIsolation(ns *nomad.Namespace, job *nomad.Job) bool {
	for _, p := range places(job) {
		if kinds.Required(ns, p.task) > drivers.LevelNone || kinds.Claimed(ns, p.group, p.task) {
			return true
		}
	}
	return false
}

// isolationWarnings returns a warning for each task below the levels that its namespace recommends.
func isolationWarnings(ns *nomad.Namespace, job *nomad.Job, names *kinds.Names) (out []string) {
	if ns == nil || ns.Isolation == nil {
		return nil
	}
	want := ns.Isolation.Warn
	if !ns.Isolation.Enforce && (want == "" || levelAbove(ns.Isolation.Minimum, want)) {
		want = ns.Isolation.Minimum
	}
	need, err := drivers.ParseLevel(want)
	if err != nil { // neither is set
		return nil
	}
	for _, p := range places(job) {
		if why := below(p, need, names); why != "" {
			out = append(out, fmt.Sprintf("%s: namespace %q recommends isolation %q, %s", p, ns.Name, need, why))
		}
	}
	return out
}

// levelAbove reports whether a level is above another. An empty name is above none.
func levelAbove(a, b string) bool {
	la, err := drivers.ParseLevel(a)
	lb, err2 := drivers.ParseLevel(b)
	return err == nil && err2 == nil && la > lb
}

// maxIsolation limits the tasks that a plan reports levels of.
const maxIsolation = 200

// levels returns the isolation level of each task: the most that any node gives it, and the levels
// that the nodes give it on which the job may be placed.
func levels(snap *state.Snapshot, table kinds.Table, names *kinds.Names, job *nomad.Job) []*message.TaskIsolation {
	all := places(job)
	out := make([]*message.TaskIsolation, 0, min(len(all), maxIsolation))
	for _, p := range all[:min(len(all), maxIsolation)] {
		out = append(out, &message.TaskIsolation{TaskGroup: p.group.Name, Task: p.task.Name,
			Level: kinds.Isolation(names.Kind(p.task.Driver), p.task).Level().String(), Nodes: map[string]int{}})
	}
	ns := snap.Namespace(nil, job.Namespace)
	for n := range scheduler.Candidates(snap, job) {
		for i, t := range out {
			p := all[i]
			if info := n.Drivers[p.task.Driver]; info == nil || !info.Detected || !info.Healthy {
				continue
			}
			l := min(kinds.LevelOn(n, p.task.Driver), kinds.Isolation(table.On(n, p.task.Driver), p.task).Level())
			if l >= kinds.Required(ns, p.task) {
				t.Nodes[l.String()]++
			}
		}
	}
	return out
}
