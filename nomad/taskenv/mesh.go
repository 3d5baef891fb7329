package taskenv

import (
	"net"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// upstreamIP is the address at which tasks reach the upstreams of a sidecar, whatever it listens at.
const upstreamIP = "127.0.0.1"

// The addresses of an Envoy proxy for its administration and its readiness. The ports differ for each task of a group.
const (
	envoyAdminIP   = "127.0.0.2"
	envoyAdminPort = 19000
	envoyReadyIP   = "127.0.0.1"
	envoyReadyPort = 19100
)

// mesh adds the addresses of the upstreams and proxies of the group. Source: compat/consul.md, section 12.
func (b *Builder) mesh(vars map[string]string) {
	a := b.subject.Alloc
	if a.Job == nil {
		return
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return
	}
	for _, s := range group.Services {
		if s == nil || s.Connect == nil {
			continue
		}
		upstreams(vars, s.Connect)
		if admin, ready, ok := Envoy(a, s); ok {
			vars["NOMAD_ENVOY_ADMIN_ADDR_"+clean(s.Name)] = admin
			vars["NOMAD_ENVOY_READY_ADDR_"+clean(s.Name)] = ready
		}
	}
}

// upstreams adds the addresses of the upstreams of a sidecar, by their names with and without dashes.
func upstreams(vars map[string]string, c *nomad.ConsulConnect) {
	if c.SidecarService == nil || c.SidecarService.Proxy == nil {
		return
	}
	for _, u := range c.SidecarService.Proxy.Upstreams {
		port := strconv.Itoa(u.LocalBindPort)
		for _, name := range []string{u.DestinationName, clean(u.DestinationName)} {
			vars["NOMAD_UPSTREAM_ADDR_"+name] = net.JoinHostPort(upstreamIP, port)
			vars["NOMAD_UPSTREAM_IP_"+name] = upstreamIP
			vars["NOMAD_UPSTREAM_PORT_"+name] = port
		}
	}
}

// Envoy returns the addresses of the proxy of a service for its administration and its readiness. It reports false if no
// task of the group is the proxy.
func Envoy(a *nomad.Allocation, s *nomad.Service) (admin, ready string, ok bool) {
	group := a.Job.TaskGroup(a.TaskGroup)
	for i, t := range group.Tasks {
		role, name := connect.ParseKind(string(t.Kind))
		if name != s.Name || role == "" || role == connect.RoleNative {
			continue
		}
		adminPort, readyPort := envoyAdminPort+i, envoyReadyPort+i
		if port := hostPort(a, group, s.PortLabel); port > 0 { // groups share the host's addresses
			adminPort, readyPort = port, port
		}
		return net.JoinHostPort(envoyAdminIP, strconv.Itoa(adminPort)), net.JoinHostPort(envoyReadyIP, strconv.Itoa(readyPort)), true
	}
	return "", "", false
}

// hostPort returns the port of a label of a group on the host's network, 0 for others.
func hostPort(a *nomad.Allocation, group *nomad.TaskGroup, label string) int {
	if group.NetworkMode() != nomad.NetworkModeHost || a.AllocatedResources == nil {
		return 0
	}
	for _, p := range a.AllocatedResources.Shared.Ports {
		if p.Label == label {
			return p.Value
		}
	}
	return 0
}
