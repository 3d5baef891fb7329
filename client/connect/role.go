package connect

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// Role is what a task is in the mesh.
type Role struct {
	kind    string
	Service *nomad.Service
}

// RoleOf returns the role of a task of a group. It reports false for a task outside of the mesh. A kind without its
// service is a role with a nil Service.
func RoleOf(group *nomad.TaskGroup, t *nomad.Task) (Role, bool) {
	kind, name := connect.ParseKind(string(t.Kind))
	if kind == "" {
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
func (r Role) Envoy() bool { return r.kind != connect.RoleNative }

// Sidecar reports whether the task runs the proxy of a service, not a gateway.
func (r Role) Sidecar() bool { return r.kind == connect.RoleProxy }

// Gateway returns the kind of gateway for the command that makes its configuration, "" for a sidecar.
func (r Role) Gateway() string {
	switch r.kind {
	case connect.RoleIngress, connect.RoleTerminating, connect.RoleMesh:
		return strings.TrimPrefix(r.kind, "connect-")
	}
	return ""
}

// InMesh reports whether a service of a group is in the mesh and satisfies want.
func InMesh(group *nomad.TaskGroup, want func(*nomad.ConsulConnect) bool) bool {
	return slices.ContainsFunc(group.Services, func(s *nomad.Service) bool { return s.Connect != nil && want(s.Connect) })
}
