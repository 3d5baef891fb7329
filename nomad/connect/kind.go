package connect

import (
	"slices"
	"strings"
)

// The roles of a task in the service mesh. The kind of a task is its role, a colon and the name of the service. The name of
// a task that the servers add, and the labels of its ports, begin with the role too.
const (
	RoleProxy       = "connect-proxy"
	RoleNative      = "connect-native"
	RoleIngress     = "connect-ingress"
	RoleTerminating = "connect-terminating"
	RoleMesh        = "connect-mesh"
)

// Kind returns the kind of a task with a role for a service.
func Kind(role, service string) string { return role + ":" + service }

// ParseKind returns the role and the service of the kind of a task, or "" for a task outside of the mesh.
func ParseKind(kind string) (role, service string) {
	role, service, _ = strings.Cut(kind, ":")
	if !slices.Contains([]string{RoleProxy, RoleNative, RoleIngress, RoleTerminating, RoleMesh}, role) || service == "" {
		return "", ""
	}
	return role, service
}

// Role returns the role of the task of a gateway, or "" if it has none of the three blocks.
func (g *Gateway) Role() string {
	switch {
	case g == nil:
		return ""
	case g.Ingress != nil:
		return RoleIngress
	case g.Terminating != nil:
		return RoleTerminating
	case g.Mesh != nil:
		return RoleMesh
	}
	return ""
}

// PortLabel returns the label of a port that the servers add for the task of a service.
func PortLabel(role, service string) string { return role + "-" + service }

// LANLabel returns the label of the port of a mesh gateway for its own datacenter.
func LANLabel(service string) string { return PortLabel(RoleMesh, service) + "-lan" }
