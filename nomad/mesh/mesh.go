// Package mesh prepares jobs for the service mesh of Consul (Connect). The servers call it at the registration of a job:
//
//	connect block ──▶ Validate ──▶ errors
//	     └──────────▶ Inject ──▶ tasks of Envoy, their ports and constraints, exposed paths
//	     └──────────▶ Writer ──▶ configuration of gateways, in Consul
//
// Inject adds a task for each sidecar and gateway of a group (task.go). sidecar_task changes it (merge.go). gateway.go has the
// defaults of gateways, expose.go the paths of exposed checks. The result is stored. Inject changes nothing in a stored
// job: it recognises its tasks by their kind, and its ports by their label. No name is random, so that the same job file
// makes the same job.
//
// The tasks that it adds follow the rules of all tasks: the servers check rights, quotas and privilege afterwards.
// Source: compat/consul.md, section 12. The package starts no goroutine. Only Writer makes requests.
package mesh

import (
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// Inject adds what the connect blocks of a canonical job need. Only services of Consul count. It reports whether it added
// something: the job must be made canonical again then.
func Inject(job *nomad.Job) (added bool) {
	for _, tg := range job.TaskGroups {
		if len(tg.Networks) != 1 { // Validate refuses it
			continue
		}
		for _, s := range tg.Services {
			if Uses(s) {
				inject(tg, s)
				added = true
			}
		}
	}
	return added
}

// Uses reports whether a service is part of the mesh.
func Uses(s *nomad.Service) bool {
	return s.Connect != nil && s.Provider == nomad.ServiceProviderConsul
}

func inject(tg *nomad.TaskGroup, s *nomad.Service) {
	c := s.Connect
	switch {
	case c.Native:
		nameNative(tg, s)
	case c.SidecarService != nil:
		addSidecar(tg, s)
	case c.Gateway.Role() != "":
		addGateway(tg, s)
	}
	expose(tg, s)
}

// nameNative gives the task of a service that needs no proxy its kind.
func nameNative(tg *nomad.TaskGroup, s *nomad.Service) {
	if t := nativeTask(tg, s); t != nil && t.Kind == "" {
		t.Kind = kind(connect.RoleNative, s)
	}
}

// nativeTask returns the task of such a service, nil if it is ambiguous.
func nativeTask(tg *nomad.TaskGroup, s *nomad.Service) *nomad.Task {
	switch {
	case s.TaskName != "":
		return tg.Task(s.TaskName)
	case len(tg.Tasks) == 1:
		return tg.Tasks[0]
	}
	return nil
}

// addSidecar adds the proxy of a service: its task, its port, and what transparent proxies need of a node.
func addSidecar(tg *nomad.TaskGroup, s *nomad.Service) {
	sidecar := s.Connect.SidecarService
	t := addTask(tg, s, connect.RoleProxy)
	constrain(&t.Constraints, leastVersion(consulVersion), withGRPC)
	label := sidecar.Port
	if label == "" {
		label = connect.PortLabel(connect.RoleProxy, s.Name)
	}
	addPort(tg, label)
	if p := sidecar.Proxy; p != nil && p.TransparentProxy != nil {
		constrain(&tg.Constraints, transparent...)
	}
}

// kind returns the kind of a task with a role for a service.
func kind(role string, s *nomad.Service) nomad.TaskKind {
	return nomad.TaskKind(connect.Kind(role, s.Name))
}

// addPort adds a dynamic port to the network of a group, unless the network has the label. It ignores port numbers.
func addPort(tg *nomad.TaskGroup, label string) {
	if _, err := strconv.Atoi(label); err == nil {
		return
	}
	if port(tg, label) == nil {
		n := tg.Networks[0]
		n.DynamicPorts = append(n.DynamicPorts, nomad.Port{Label: label, To: -1})
	}
}

// port returns the port of a group with a label, nil if there is none.
func port(tg *nomad.TaskGroup, label string) *nomad.Port {
	for _, n := range tg.Networks {
		for _, list := range [][]nomad.Port{n.ReservedPorts, n.DynamicPorts} {
			if i := slices.IndexFunc(list, func(p nomad.Port) bool { return p.Label == label }); i >= 0 {
				return &list[i]
			}
		}
	}
	return nil
}

// The nodes that run proxies. Nomad has the same constraints.
const (
	consulVersion = ">= 1.8.0"
	tlsVersion    = ">= 1.11.2" // of gateways with versions or ciphers of TLS
)

var (
	withGRPC    = nomad.Constraint{LTarget: "${attr.consul.grpc}", RTarget: "0", Operand: ">"}
	transparent = []nomad.Constraint{
		{LTarget: "${attr.plugins.cni.version.consul-cni}", RTarget: ">= 1.4.2", Operand: nomad.ConstraintSemver},
		{LTarget: "${attr.nomad.version}", RTarget: ">= 1.8.0-dev", Operand: nomad.ConstraintSemver},
	}
)

func leastVersion(r string) nomad.Constraint {
	return nomad.Constraint{LTarget: "${attr.consul.version}", RTarget: r, Operand: nomad.ConstraintSemver}
}

// constrain adds constraints that the list does not have.
func constrain(list *[]*nomad.Constraint, more ...nomad.Constraint) {
	for _, c := range more {
		if !slices.ContainsFunc(*list, func(o *nomad.Constraint) bool { return *o == c }) {
			*list = append(*list, &c)
		}
	}
}
