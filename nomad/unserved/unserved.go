// Package unserved lists what is stored in state and this version does not serve.
//
// Registration refuses jobs with features that this version lacks. State may hold such jobs
// nevertheless: a server of another build wrote them to the log, or a snapshot had them. The
// same holds for records of features that this version lacks, such as service registrations.
//
// Each listed feature has a sentence about the consequences (effect.go). A sentence is about
// servers and clients of this version. In a cluster with other builds the leader's build
// decides on placement, and the client's build on how tasks run.
//
// List reads every job, job version and foreign record of a snapshot once. Watcher is a duty of
// every server: it has one goroutine, that of Run, and logs the list when it changed. Nothing
// here writes to state.
package unserved

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Feature is something stored that this version does not serve.
type Feature struct {
	Name   string   // stable key, such as "periodic", "volume csi" or "service registrations"
	Count  int      // jobs that use it, or records of it
	Effect string   // a sentence without full stop, with the count: "3 periodic jobs will not be launched"
	Jobs   []string // "namespace/id" of the jobs that use it, sorted; nil for records that are not of jobs
}

// VersionTag is the name of the feature of jobs that have a tagged version.
const VersionTag = "version tag"

// List returns the stored features that this version does not serve, sorted by Name. Jobs
// that are stopped or dead are left out.
func List(s *state.Snapshot) []Feature {
	var out []Feature
	for name, jobs := range users(s) {
		out = append(out, Feature{Name: name, Count: len(jobs), Effect: effectOnJobs(name, len(jobs)), Jobs: jobs})
	}
	for kind, n := range s.Foreign() {
		r := recordOf(kind)
		out = append(out, Feature{Name: r.name, Count: n, Effect: r.effect.of(n)})
	}
	slices.SortFunc(out, func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// users returns the jobs that use each feature, sorted: state has jobs by namespace and ID.
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
			for _, feature := range j.AbsentFeatures() {
				add(feature, j)
			}
		}
	}
	for v := range s.AllJobVersions() {
		if v.VersionTag != nil && !over(s.Job(nil, v.Namespace, v.ID)) {
			add(VersionTag, v)
		}
	}
	for _, jobs := range out {
		slices.Sort(jobs) // by namespace and ID is another order than by their text
	}
	return out
}

// over reports whether nothing of the job runs or will run.
func over(j *nomad.Job) bool { return j.Stopped() || j.Status == nomad.JobStatusDead }
