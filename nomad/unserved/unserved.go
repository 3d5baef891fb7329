// Package unserved finds stored data that this version does not support.
//
// Registration refuses jobs with unsupported features. State may contain such jobs
// nevertheless: a server of another build wrote them to the log, or a snapshot contained them.
//
// Each feature has a message about the consequences (effect.go). It describes servers and
// clients of this version. In a cluster with other builds, the leader's build decides about
// placement and the client's build runs the tasks.
//
// List reads every job of a snapshot once. A Watcher runs on every server. Its one goroutine, Run,
// logs the list when it has changed. The package never writes to state.
package unserved

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Feature is a stored feature that this version does not support.
type Feature struct {
	Name   string   // stable key, such as "multiregion" or "connect"
	Count  int      // jobs that use it
	Effect string   // message with the count, without full stop: "Consul namespaces of 3 jobs have no effect here"
	Jobs   []string // "namespace/id" of the jobs that use it, sorted
}

// List returns the stored features that this version does not support, sorted by name. It skips
// stopped and dead jobs.
func List(s *state.Snapshot) []Feature {
	var out []Feature
	for name, jobs := range users(s) {
		out = append(out, Feature{Name: name, Count: len(jobs), Effect: effectOnJobs(name, len(jobs)), Jobs: jobs})
	}
	slices.SortFunc(out, func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// users returns the jobs that use each feature, sorted like the jobs in state: by namespace and
// ID.
func users(s *state.Snapshot) map[string][]string {
	out := map[string][]string{}
	add := func(feature string, j *nomad.Job) {
		name, list := j.Namespace+"/"+j.ID, out[feature]
		if len(list) == 0 || list[len(list)-1] != name {
			out[feature] = append(list, name)
		}
	}
	for j := range s.Jobs(nil) {
		if !over(j) {
			for _, feature := range jobrules.UnsupportedFeatures(j) {
				add(feature, j)
			}
		}
	}
	for _, jobs := range out {
		slices.Sort(jobs) // sorting by namespace and ID differs from sorting by text
	}
	return out
}

// over reports whether nothing of the job runs or will run.
func over(j *nomad.Job) bool { return j.Stopped() || j.Status == nomad.JobStatusDead }
