package jobrules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// The features that need servers with Consul. Whether they have it is not a property of the job: Validate accepts these
// features, and package admission refuses them with the errors of NeedsConsul.
var (
	consulForJobs = []feature[*nomad.Job]{
		{"consul namespace", consulNamespaces, func(j *nomad.Job) bool { return j.ConsulNamespace != "" }},
	}
	consulForGroups = []feature[*nomad.TaskGroup]{
		{"consul namespace", consulNamespaces, func(tg *nomad.TaskGroup) bool { return ofConsul(tg.Consul).Namespace != "" }},
		{"consul partition", consulPartitions, func(tg *nomad.TaskGroup) bool { return ofConsul(tg.Consul).Partition != "" }},
		{"consul cluster", consulClusters, func(tg *nomad.TaskGroup) bool { return otherCluster(ofConsul(tg.Consul).Cluster) }},
	}
	consulForServices = []feature[*nomad.Service]{
		{"consul service", "", func(s *nomad.Service) bool { return s.Provider != nomad.ServiceProviderNomad }},
		{"connect", "", func(s *nomad.Service) bool { return s.Connect != nil }},
	}
	consulForTasks = []feature[*nomad.Task]{
		{"consul namespace", consulNamespaces, func(t *nomad.Task) bool { return ofConsul(t.Consul).Namespace != "" }},
		{"consul partition", consulPartitions, func(t *nomad.Task) bool { return ofConsul(t.Consul).Partition != "" }},
		{"consul cluster", consulClusters, func(t *nomad.Task) bool { return otherCluster(ofConsul(t.Consul).Cluster) }},
		{"connect", "Consul Connect task kinds are", func(t *nomad.Task) bool { return t.Kind != "" }},
	}
)

// The beginnings of error messages of several rows.
const (
	consulNamespaces = "Consul namespaces are"
	consulPartitions = "Consul partitions are"
	consulClusters   = "Consul clusters other than default are"
)

// ConsulFeatures returns the names of the features that need servers with Consul.
func ConsulFeatures() []string {
	out := slices.Concat(namesOf(consulForJobs), namesOf(consulForGroups), namesOf(consulForServices), namesOf(consulForTasks))
	slices.Sort(out)
	return slices.Compact(out)
}

// NeedsConsul returns the errors of servers without Consul for a canonical job: for its namespaces, partitions and clusters of
// Consul, for its tasks of the service mesh, and for functions of its templates. Services are not part of it.
func NeedsConsul(j *nomad.Job) []error {
	var list []error
	f := &faults{place: fmt.Sprintf("job %q", untrusted.Shorten(j.ID, maxShown)), list: &list, regexps: new(int)}
	refuse(f, withoutIt, consulForJobs, j)
	for _, tg := range j.TaskGroups {
		in := f.in("group", tg.Name)
		refuse(in, withoutIt, consulForGroups, tg)
		for _, t := range tg.Tasks {
			refuse(in.in("task", t.Name), withoutIt, consulForTasks, t)
			nativeTemplates(in.in("task", t.Name), t)
		}
	}
	return list
}

// ofConsul returns the contents of a consul block, empty if there is none. A block without a namespace, a partition and
// another cluster only requests a token of Consul, which nothing needs on servers without Consul.
func ofConsul(c *nomad.Consul) nomad.Consul {
	if c == nil {
		return nomad.Consul{}
	}
	return *c
}

// otherCluster reports whether a service or consul block names a cluster other than the default one.
func otherCluster(name string) bool { return name != "" && name != "default" }

// serviceKinds are the values of the kind of a service.
var serviceKinds = []string{"", "api-gateway", "ingress-gateway", "mesh-gateway", "terminating-gateway"}

// errCluster is the error for another cluster than the default one.
var errCluster = errors.New("non-default Consul cluster requires Nomad Enterprise: jobs use the cluster \"default\"")

// consulFields checks the fields that only Consul has. With provider "nomad" in the job file, cluster and kind have no
// effect.
func consulFields(f *faults, s *nomad.Service) {
	if s.Provider == nomad.ServiceProviderConsul {
		if otherCluster(s.Cluster) {
			f.add("%v", errCluster)
		}
		if !slices.Contains(serviceKinds, s.Kind) {
			f.add("Service %s kind must be one of consul service kind or empty, not %q", s.Name, s.Kind)
		}
		serviceIdentity(f, s.Identity)
		return
	}
	if s.Connect != nil {
		f.add("connect is a feature of Consul, in which this service is not registered: remove the block")
	}
	if s.Declared() != nomad.ServiceProviderConsul {
		return
	}
	if otherCluster(s.Cluster) {
		f.add("cluster is %q, but clusters are a feature of Consul: remove it, or add a consul block to the servers", s.Cluster)
	}
	if s.Kind != "" {
		f.add("kind is a feature of Consul: remove it, or add a consul block to the servers")
	}
}

// consulBlocks checks the consul blocks of a group and its tasks. Those with another cluster are refused by servers with
// Consul and without.
func consulBlocks(tg *nomad.TaskGroup, f *faults) {
	partition := ofConsul(tg.Consul).Partition
	for _, t := range tg.Tasks {
		if own := ofConsul(t.Consul).Partition; own != "" && partition != "" && own != partition {
			f.in("task", t.Name).add("task.consul.partition %q must match group.consul.partition %q if both are set", own, partition)
		}
	}
}

// OtherCluster returns an error for each part of the job that names another cluster of Consul than the default one. Those of
// services of Consul are part of Validate.
func OtherCluster(j *nomad.Job) (out []error) {
	for _, tg := range j.TaskGroups {
		if otherCluster(ofConsul(tg.Consul).Cluster) {
			out = append(out, fmt.Errorf("%s: %w", Place(j.ID, tg.Name, ""), errCluster))
		}
		for _, t := range tg.Tasks {
			if otherCluster(ofConsul(t.Consul).Cluster) {
				out = append(out, fmt.Errorf("%s: %w", Place(j.ID, tg.Name, t.Name), errCluster))
			}
		}
	}
	return out[:min(len(out), maxFaults)]
}

// consulName matches the name of a service in Consul, which also has names that are not DNS labels.
var consulName = pattern.Lazy(`^[A-Za-z0-9._-]{1,128}$`)

// serviceName checks the name of a service. References count as one character.
func serviceName(f *faults, s *nomad.Service) {
	name := fixed(s.Name)
	switch {
	case s.Provider == nomad.ServiceProviderConsul:
		if !consulName().MatchString(name) {
			f.add("the name is malformed: use 1 to 128 letters, digits, -, _ and dots")
		}
	case !catalog.ServiceName(name):
		f.add("the name is malformed: use 1 to 63 letters, digits and -, with a letter or digit at both ends")
	}
}

// serviceIdentity checks the identity of a service of Consul. Servers set its name.
func serviceIdentity(f *faults, id *nomad.WorkloadIdentity) {
	if id == nil {
		return
	}
	if len(id.Audience) == 0 {
		f.add("Service identity must provide at least one target aud value")
	}
	named := *id
	named.Name = "service"
	validateWorkloadIdentity(&named, f)
}
