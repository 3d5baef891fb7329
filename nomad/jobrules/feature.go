package jobrules

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// feature is a part of a job that this version does not support. Several rows may share a name: for example,
// a consul block may be in a group or in a task.
type feature[T any] struct {
	name string // the name that UnsupportedFeatures returns
	text string // the beginning of the error message
	used func(T) bool
}

// Formats of the error messages for an unsupported feature, and for one that servers without Consul do not support.
const (
	absent    = "%s not supported by this version: remove it from the job"
	withoutIt = "%s not supported by servers without Consul: remove it from the job, or add a consul block to the servers"
)

// The unsupported features of jobs. Those of volumes are in volume.go, those that need Consul or Vault in consul.go and vault.go.
// Registration rejects a job that uses one of them. Jobs stored by another implementation may use them: see
// UnsupportedFeatures.
var absentForJobs = []feature[*nomad.Job]{
	{"multiregion", "multiregion blocks are", func(j *nomad.Job) bool { return j.Multiregion != nil }},
}

// refuse adds a fault with the text of format for each feature that v uses.
func refuse[T any](f *faults, format string, list []feature[T], v T) {
	for _, ft := range list {
		if ft.used(v) {
			f.add(format, ft.text)
		}
	}
}

// UnsupportedFeatures returns the names of the unsupported features that the job uses, sorted and without duplicates. It
// includes those that need servers with Consul or Vault.
func UnsupportedFeatures(j *nomad.Job) []string {
	names := usedOf(vaultForJobs, j, usedOf(consulForJobs, j, usedOf(absentForJobs, j, nil)))
	for _, tg := range j.TaskGroups {
		if tg == nil {
			continue // possible only in a job that was stored without validation
		}
		names = usedOf(consulForGroups, tg, names)
		for _, v := range tg.Volumes {
			names = usedOf(absentForVolumes, v, names)
		}
		for _, s := range tg.AllServices() {
			names = usedOf(consulForServices, s, names)
		}
		for _, t := range tg.Tasks {
			names = usedOf(vaultForTasks, t, usedOf(consulForTasks, t, names))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// usedOf appends the names of the features that v uses.
func usedOf[T any](list []feature[*T], v *T, names []string) []string {
	if v == nil {
		return names
	}
	for _, ft := range list {
		if ft.used(v) {
			names = append(names, ft.name)
		}
	}
	return names
}

// AllUnsupportedFeatures returns all names that UnsupportedFeatures can return, sorted.
func AllUnsupportedFeatures() []string {
	names := slices.Concat(namesOf(absentForJobs), namesOf(absentForVolumes), ConsulFeatures(),
		namesOf(vaultForJobs), namesOf(vaultForTasks))
	slices.Sort(names)
	return slices.Compact(names)
}

func namesOf[T any](list []feature[T]) []string {
	names := make([]string, len(list))
	for i, ft := range list {
		names[i] = ft.name
	}
	return names
}
