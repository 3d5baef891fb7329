package connect

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// The kinds of tasks in the mesh, before the colon and the name of the service.
const (
	kindProxy       = "connect-proxy"
	kindNative      = "connect-native"
	kindIngress     = "connect-ingress"
	kindTerminating = "connect-terminating"
	kindMesh        = "connect-mesh"
)

// Role is what a task is in the mesh.
type Role struct {
	kind    string
	Service *nomad.Service
}

// RoleOf returns the role of a task of a group. It reports false for a task outside of the mesh. A kind without its
// service is a role with a nil Service.
func RoleOf(group *nomad.TaskGroup, t *nomad.Task) (Role, bool) {
	kind, name, ok := strings.Cut(string(t.Kind), ":")
	if !ok || !slices.Contains([]string{kindProxy, kindNative, kindIngress, kindTerminating, kindMesh}, kind) {
		return Role{}, false
	}
	r := Role{kind: kind}
	for _, s := range group.Services {
		if s.Name == name && s.Connect != nil {
			r.Service = s
		}
	}
	return r, true
}

// Envoy reports whether the task runs a proxy.
func (r Role) Envoy() bool { return r.kind != kindNative }

// Sidecar reports whether the task runs the proxy of a service, not a gateway.
func (r Role) Sidecar() bool { return r.kind == kindProxy }

// Gateway returns the kind of gateway for the command that makes its configuration, "" for a sidecar.
func (r Role) Gateway() string {
	switch r.kind {
	case kindIngress, kindTerminating, kindMesh:
		return strings.TrimPrefix(r.kind, "connect-")
	}
	return ""
}

// InMesh reports whether a service of a group is in the mesh and satisfies want.
func InMesh(group *nomad.TaskGroup, want func(*nomad.ConsulConnect) bool) bool {
	return slices.ContainsFunc(group.Services, func(s *nomad.Service) bool { return s.Connect != nil && want(s.Connect) })
}
