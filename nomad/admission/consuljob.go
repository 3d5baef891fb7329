package admission

import (
	"cmp"
	"slices"

	internal "github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/mesh"
)

// What a node needs for services of Consul and for identities. Nomad has the same constraints.
const (
	targetConsul    = "${attr.consul.version}"
	targetPartition = "${attr.consul.partition}"
	consulVersion   = ">= 1.8.0"
	targetNomad     = "${attr.nomad.version}"
	identityVersion = ">= 1.7.0-a"
)

// toConsul prepares a canonical job for Consul: clusters, tasks of the service mesh, constraints and identities. A second call
// changes nothing.
func (w *write) toConsul() {
	w.AddProxies(w.job)
	for _, tg := range w.job.TaskGroups {
		defaultClusters(tg)
		tg.Constraints = constrainConsul(tg.Constraints, tg.Consul, tg.Services)
		for _, t := range tg.Tasks {
			t.Constraints = constrainConsul(t.Constraints, t.Consul, t.Services)
		}
		if identify(w.cfg.Consul.Identities(), tg) {
			Constrain(tg, &nomad.Constraint{LTarget: targetNomad, RTarget: identityVersion, Operand: nomad.ConstraintSemver})
		}
	}
}

// AddProxies adds the tasks of the service mesh to a canonical job, if the servers have Consul. Who adds constraints for the
// tasks of a job before Admit calls it first: otherwise those of the proxies would be missing until the next registration.
func (v *View) AddProxies(job *nomad.Job) {
	if v.consulMode() == consul.Consul && mesh.Inject(job) {
		jobrules.Canonicalize(job)
	}
}

// defaultClusters names the cluster in services of Consul and in consul blocks.
func defaultClusters(tg *nomad.TaskGroup) {
	set := func(c *nomad.Consul) {
		if c != nil {
			c.Cluster = cmp.Or(c.Cluster, internal.DefaultCluster)
		}
	}
	set(tg.Consul)
	for _, t := range tg.Tasks {
		set(t.Consul)
	}
	for _, s := range tg.AllServices() {
		if inConsul(s) {
			s.Cluster = cmp.Or(s.Cluster, internal.DefaultCluster)
		}
	}
}

// constrainConsul adds the constraints of a consul block and of services to those of their group or task. A job may have a
// constraint of its own for the version.
func constrainConsul(list []*nomad.Constraint, block *nomad.Consul, services []*nomad.Service) []*nomad.Constraint {
	has := func(target string) bool {
		return slices.ContainsFunc(list, func(c *nomad.Constraint) bool { return c.LTarget == target })
	}
	if block != nil && block.Partition != "" && !has(targetPartition) {
		list = append(list, &nomad.Constraint{LTarget: targetPartition, RTarget: block.Partition, Operand: "="})
	}
	if slices.ContainsFunc(services, inConsul) && !has(targetConsul) {
		list = append(list, &nomad.Constraint{LTarget: targetConsul, RTarget: consulVersion, Operand: nomad.ConstraintSemver})
	}
	return list
}

// inConsul reports whether a service is registered in Consul.
func inConsul(s *nomad.Service) bool { return s.Provider == nomad.ServiceProviderConsul }

// identify adds the identities with which the services and tasks of a group log in to Consul. It reports whether the group
// has one.
func identify(ids consul.Identities, tg *nomad.TaskGroup) (has bool) {
	services := func(list []*nomad.Service, task string) {
		for _, s := range list {
			if inConsul(s) && identifyService(ids.Service, s, task) {
				has = true
			}
		}
	}
	services(tg.Services, "")
	for _, t := range tg.Tasks {
		services(t.Services, t.Name)
		if (t.Consul != nil || tg.Consul != nil) && identifyTask(ids.Task, t, consul.TaskIdentityName(cluster(tg, t))) {
			has = true
		}
	}
	return has
}

// cluster returns the cluster of a task.
func cluster(tg *nomad.TaskGroup, t *nomad.Task) string {
	name := internal.DefaultCluster
	if tg.Consul != nil {
		name = cmp.Or(tg.Consul.Cluster, name)
	}
	if t.Consul != nil {
		name = cmp.Or(t.Consul.Cluster, name)
	}
	return name
}

// identifyService completes the identity of a service, or adds one like of. It reports whether the service has one.
func identifyService(of *nomad.WorkloadIdentity, s *nomad.Service, task string) bool {
	if s.Identity == nil {
		if of == nil {
			return false
		}
		s.Identity = loginIdentity(of)
	}
	s.Identity.Name, s.Identity.ServiceName = consul.ServiceIdentityName(s, task), s.Name
	s.Identity.Alg = cmp.Or(s.Identity.Alg, consul.LoginAlg)
	return true
}

// identifyTask completes the identity of a task with the name, or adds one like of. It reports whether the task has one.
func identifyTask(of *nomad.WorkloadIdentity, t *nomad.Task, name string) bool {
	for _, id := range t.Identities {
		if id.Name == name {
			id.Alg = cmp.Or(id.Alg, consul.LoginAlg)
			return true
		}
	}
	if of == nil {
		return false
	}
	id := loginIdentity(of)
	id.Name = name
	t.Identities = append(t.Identities, id)
	return true
}

// loginIdentity returns a copy of a configured identity.
func loginIdentity(of *nomad.WorkloadIdentity) *nomad.WorkloadIdentity {
	id := *of
	id.Audience, id.ExtraClaims = slices.Clone(of.Audience), slices.Clone(of.ExtraClaims)
	id.Alg = cmp.Or(id.Alg, consul.LoginAlg)
	return &id
}
