package mesh

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/connect"
)

// gatewayModes are the values of mode in mesh_gateway.
var gatewayModes = []string{"", "none", "local", "remote"}

// exposedProtocols are the protocols of paths that a proxy exposes.
var exposedProtocols = []string{"", "http", "http2"}

// proxy checks the proxy block of a sidecar.
func (r rules) proxy(p *connect.Proxy) {
	for _, u := range p.Upstreams {
		switch {
		case u.DestinationName == "":
			r.add("an upstream has no destination_name: set it")
		case u.LocalBindPort == 0 && u.LocalBindSocketPath == "":
			r.add("the upstream %q has no local_bind_port or local_bind_socket_path: set one", u.DestinationName)
		case u.LocalBindPort != 0 && u.LocalBindSocketPath != "":
			r.add("the upstream %q has local_bind_port and local_bind_socket_path: remove one", u.DestinationName)
		case u.LocalBindPort < 0 || u.LocalBindPort > 65535:
			r.add("local_bind_port of the upstream %q is %d: it must be 1 to 65535", u.DestinationName, u.LocalBindPort)
		}
		if !slices.Contains(gatewayModes, u.MeshGateway.Mode) {
			r.add("mode of mesh_gateway of the upstream %q is %q: use none, local or remote", u.DestinationName, u.MeshGateway.Mode)
		}
	}
	if t := p.TransparentProxy; t != nil {
		r.transparent(t)
	}
}

// binds checks that two upstreams of a group do not listen on the same address. taken has those of other services.
func (r rules) binds(taken map[string]string) {
	p := r.s.Connect.SidecarService.Proxy
	if p == nil {
		return
	}
	for _, u := range p.Upstreams {
		at := u.LocalBindSocketPath
		if at == "" {
			host := u.LocalBindAddress
			if host == "" {
				host = "127.0.0.1"
			}
			at = net.JoinHostPort(host, strconv.Itoa(u.LocalBindPort))
		}
		if other, has := taken[at]; has {
			r.add("the upstreams %q and %q have the same bind address %q: change one", other, u.DestinationName, at)
		}
		taken[at] = u.DestinationName
	}
}

// transparent checks a proxy that gets the traffic of the whole network namespace.
func (r rules) transparent(t *connect.TransparentProxy) {
	for _, p := range t.ExcludeInboundPorts {
		if _, err := strconv.ParseUint(p, 10, 16); err != nil && port(r.tg, p) == nil {
			r.add("exclude_inbound_ports of transparent_proxy has %q: use a number, or the label of a port of the group", p)
		}
	}
	for _, uid := range append([]string{t.UID}, t.ExcludeUIDs...) {
		if _, err := strconv.ParseUint(uid, 10, 32); uid != "" && err != nil {
			r.add("the user %q of transparent_proxy is not a number", uid)
		}
	}
	for _, cidr := range t.ExcludeOutboundCIDRs {
		if _, _, err := net.ParseCIDR(cidr); err != nil {
			r.add("exclude_outbound_cidrs of transparent_proxy has %q, which is not a prefix such as 192.0.2.0/24", cidr)
		}
	}
	for _, n := range r.tg.Networks {
		if n.DNS != nil && !t.NoDNS {
			r.add("transparent_proxy sets the DNS servers of the group, which has a dns block: remove it, or set no_dns = true")
		}
	}
}

// exposed checks what exposed checks need. Package jobrules checks their type.
func (r rules) exposed() {
	for _, c := range r.s.Checks {
		switch {
		case !c.Expose:
		case c.Path != "" && !strings.HasPrefix(c.Path, "/"):
			r.add("check %q is exposed, and its path is %q: it must begin with /", c.Name, c.Path)
		case !slices.Contains(exposedProtocols, c.Protocol):
			r.add("check %q is exposed, and its protocol is %q: Consul exposes http and http2 only", c.Name, c.Protocol)
		case localPort(r.tg, r.s) == 0:
			r.add("check %q is exposed, but the port of the service in its network namespace is not known: "+
				"set port of the service to a number, or to the label of a port with to", c.Name)
		}
	}
}
