package mesh

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad/connect"
)

// protocols are those of the listeners of an ingress gateway. The default is tcp.
var protocols = []string{"", "tcp", "http", "http2", "grpc"}

// discoveryTypes are the values of envoy_dns_discovery_type.
var discoveryTypes = []string{"", "STRICT_DNS", "LOGICAL_DNS"}

// gateway checks a gateway block.
func (r rules) gateway(g *connect.Gateway) {
	blocks := 0
	for _, is := range []bool{g.Ingress != nil, g.Terminating != nil, g.Mesh != nil} {
		if is {
			blocks++
		}
	}
	if blocks != 1 {
		r.add("a gateway must have exactly one of the blocks ingress, terminating and mesh, not %d", blocks)
		return
	}
	if p := g.Proxy; p != nil {
		if p.ConnectTimeout != nil && *p.ConnectTimeout < 0 {
			r.add("connect_timeout of the gateway is negative")
		}
		if !slices.Contains(discoveryTypes, p.EnvoyDNSDiscoveryType) {
			r.add("envoy_dns_discovery_type is %q: use STRICT_DNS or LOGICAL_DNS", p.EnvoyDNSDiscoveryType)
		}
	}
	switch g.Role() {
	case connect.RoleIngress:
		r.ingress(g.Ingress)
	case connect.RoleTerminating:
		r.terminating(g.Terminating)
	case connect.RoleMesh:
		if r.s.PortLabel == "" {
			r.add("a mesh gateway needs port, the label of its port for other datacenters: set it")
		}
	}
}

func (r rules) ingress(e *connect.IngressConfigEntry) {
	if len(e.Listeners) == 0 {
		r.add("Consul Ingress Gateway requires at least one listener")
	}
	for _, l := range e.Listeners {
		if l.Port < 1 || l.Port > 65535 {
			r.add("port of a listener is %d: it must be 1 to 65535", l.Port)
		}
		if !slices.Contains(protocols, l.Protocol) {
			r.add("protocol of a listener is %q: use tcp, http, http2 or grpc", l.Protocol)
		}
		if len(l.Services) == 0 {
			r.add("the listener on port %d has no service: add one", l.Port)
		}
		for _, s := range l.Services {
			if s.Name == "" {
				r.add("a service of the listener on port %d has no name: set it", l.Port)
			}
		}
	}
}

func (r rules) terminating(e *connect.TerminatingConfigEntry) {
	if len(e.Services) == 0 {
		r.add("Consul Terminating Gateway requires at least one service")
	}
	for _, s := range e.Services {
		if s.Name == "" {
			r.add("a service of the terminating gateway has no name: set it")
		}
		if (s.CertFile == "") != (s.KeyFile == "") {
			r.add("the service %q of the terminating gateway needs cert_file and key_file together: set both", s.Name)
		}
		if s.CertFile != "" && s.CAFile == "" || s.SNI != "" && s.CAFile == "" {
			r.add("the service %q of the terminating gateway has TLS options without ca_file: set it", s.Name)
		}
	}
}
