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

// absent is the format of the error message for an unsupported feature.
const absent = "%s not supported by this version: remove it from the job"

// The unsupported features of jobs, groups and tasks. Those of volumes are in volume.go, those of services in service.go.
// Registration rejects a job that uses one of them. Jobs stored by another implementation may use them: see
// UnsupportedFeatures.
var (
	absentForJobs = []feature[*nomad.Job]{
		{"multiregion", "multiregion blocks are", func(j *nomad.Job) bool { return j.Multiregion != nil }},
		{"consul namespace", consulNamespaces, func(j *nomad.Job) bool { return j.ConsulNamespace != "" }},
		{"vault namespace", "Vault namespaces are", func(j *nomad.Job) bool { return j.VaultNamespace != "" }},
	}
	absentForGroups = []feature[*nomad.TaskGroup]{
		{"consul namespace", consulNamespaces, func(tg *nomad.TaskGroup) bool { return ofConsul(tg.Consul).Namespace != "" }},
		{"consul partition", consulPartitions, func(tg *nomad.TaskGroup) bool { return ofConsul(tg.Consul).Partition != "" }},
		{"consul cluster", consulClusters, func(tg *nomad.TaskGroup) bool { return otherCluster(ofConsul(tg.Consul).Cluster) }},
	}
	absentForTasks = []feature[*nomad.Task]{
		{"vault", "vault blocks are", func(t *nomad.Task) bool { return t.Vault != nil }},
		{"consul namespace", consulNamespaces, func(t *nomad.Task) bool { return ofConsul(t.Consul).Namespace != "" }},
		{"consul partition", consulPartitions, func(t *nomad.Task) bool { return ofConsul(t.Consul).Partition != "" }},
		{"consul cluster", consulClusters, func(t *nomad.Task) bool { return otherCluster(ofConsul(t.Consul).Cluster) }},
		{"csi_plugin", "csi_plugin blocks are", func(t *nomad.Task) bool { return t.CSIPluginConfig != nil }},
		{"secret", "secret blocks are", func(t *nomad.Task) bool { return len(t.Secrets) > 0 }},
		{"connect", "Consul Connect task kinds are", func(t *nomad.Task) bool { return t.Kind != "" }},
	}
)

// The beginnings of error messages of several rows.
const (
	consulNamespaces = "Consul namespaces are"
	consulPartitions = "Consul partitions are"
	consulClusters   = "Consul clusters other than default are"
)

// ofConsul returns the contents of a consul block, empty if there is none. A block without a namespace, a partition and
// another cluster only requests a token of Consul, which nothing needs here.
func ofConsul(c *nomad.Consul) nomad.Consul {
	if c == nil {
		return nomad.Consul{}
	}
	return *c
}

// refuseAbsent adds a fault for each feature that v uses.
func refuseAbsent[T any](f *faults, list []feature[T], v T) {
	for _, ft := range list {
		if ft.used(v) {
			f.add(absent, ft.text)
		}
	}
}

// UnsupportedFeatures returns the names of the unsupported features that the job uses, sorted and without duplicates.
func UnsupportedFeatures(j *nomad.Job) []string {
	names := usedOf(absentForJobs, j, nil)
	for _, tg := range j.TaskGroups {
		if tg == nil {
			continue // possible only in a job that was stored without validation
		}
		names = usedOf(absentForGroups, tg, names)
		for _, v := range tg.Volumes {
			names = usedOf(absentForVolumes, v, names)
		}
		for _, s := range tg.AllServices() {
			names = usedOf(absentForServices, s, names)
		}
		for _, t := range tg.Tasks {
			names = usedOf(absentForTasks, t, names)
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
	names := slices.Concat(namesOf(absentForJobs), namesOf(absentForGroups), namesOf(absentForServices),
		namesOf(absentForVolumes), namesOf(absentForTasks))
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
