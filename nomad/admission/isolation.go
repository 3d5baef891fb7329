package admission

import (
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// isolated rejects a job with a task that cannot have the isolation level that it or its namespace
// requires, on any node. A job that uses levels is also rejected beside servers of other builds,
// because their schedulers ignore them.
func (v *View) isolated(ns *nomad.Namespace, job *nomad.Job) error {
	if usesIsolation(ns, job) {
		if err := v.cfg.OnlyOurs(fmt.Sprintf("isolation of job %q", job.ID)); err != nil {
			return err
		}
	}
	return isolated(ns, job, v.names)
}

// isolated is View.isolated without the check of the servers. Without a namespace it checks the
// levels of the tasks only.
func isolated(ns *nomad.Namespace, job *nomad.Job, names *kinds.Names) error {
	var list []error
	for _, p := range Places(job) {
		need := kinds.Required(ns, p.Task)
		who := "it"
		if need > kinds.Required(nil, p.Task) {
			who = fmt.Sprintf("namespace %q", ns.Name)
		}
		if why := below(p, need, names); why != "" {
			list = append(list, apierror.Errorf(400, "%s: %s requires isolation %q, %s", p, who, need, why))
		}
	}
	return errors.Join(list...)
}

// below returns the reason why a task cannot have a level on any node, "" if it can.
func below(p Place, need drivers.Level, names *kinds.Names) string {
	i := kinds.Isolation(names.Kind(p.Task.Driver), p.Task)
	lacks := i.Lacks(need)
	if len(lacks) == 0 {
		return ""
	}
	return fmt.Sprintf("driver %q gives it %q at most, which lacks: %s", p.Task.Driver, i.Level(), drivers.Texts(lacks))
}

// usesIsolation reports whether servers must enforce or claim levels for a job.
func usesIsolation(ns *nomad.Namespace, job *nomad.Job) bool {
	for _, p := range Places(job) {
		if kinds.Required(ns, p.Task) > drivers.LevelNone || kinds.Claimed(ns, p.Group, p.Task) {
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
	for _, p := range Places(job) {
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
