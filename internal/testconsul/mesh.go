package testconsul

import (
	"fmt"

	"github.com/hashicorp/consul/api"
)

// validProxy checks what Consul requires of a member of the service mesh.
func (c *call) validProxy(in *api.AgentServiceRegistration) error {
	switch in.Kind {
	case api.ServiceKindTypical:
		if in.Proxy != nil {
			return c.invalid("Invalid Service: Proxy is not allowed for the kind %q", in.Kind)
		}
	case api.ServiceKindConnectProxy:
		if in.Proxy == nil || in.Proxy.DestinationServiceName == "" {
			return c.invalid("Invalid Service: Proxy.DestinationServiceName must be non-empty for Connect proxy services")
		}
		return c.validSidecar(in.Proxy)
	case api.ServiceKindIngressGateway, api.ServiceKindTerminatingGateway, api.ServiceKindMeshGateway:
		if in.Proxy != nil && (in.Proxy.DestinationServiceName != "" || in.Proxy.LocalServiceAddress != "" || in.Proxy.LocalServicePort != 0 ||
			len(in.Proxy.Upstreams) > 0) {
			return c.invalid("Invalid Service: the Proxy of a %s has a destination, a local service or upstreams", in.Kind)
		}
	default:
		return c.invalid("Invalid Service: unknown Kind %q", in.Kind)
	}
	if in.Connect == nil {
		return nil
	}
	switch native, sidecar := in.Connect.Native, in.Connect.SidecarService; {
	case in.Kind != api.ServiceKindTypical:
		return c.invalid("Invalid Service: a %s cannot be Connect", in.Kind)
	case native && sidecar != nil:
		return c.invalid("Invalid Service: Connect.Native and Connect.SidecarService")
	case sidecar != nil && (sidecar.Kind != "" || sidecar.ID != "" || sidecar.Connect != nil):
		return c.invalid("Invalid SidecarService: Kind, ID and Connect must be empty")
	}
	return nil
}

// validSidecar checks the proxy of a service.
func (c *call) validSidecar(p *api.AgentServiceConnectProxyConfig) error {
	if p.Mode != "" && p.Mode != api.ProxyModeTransparent && p.Mode != api.ProxyModeDirect || p.TransparentProxy != nil && p.Mode != api.ProxyModeTransparent {
		return c.invalid("Invalid Proxy: mode %q, transparent proxy %v", p.Mode, p.TransparentProxy)
	}
	at := map[string]string{}
	for i, u := range p.Upstreams {
		listens := fmt.Sprintf("%s:%d%s", u.LocalBindAddress, u.LocalBindPort, u.LocalBindSocketPath)
		other, taken := at[listens]
		at[listens] = u.DestinationName
		switch {
		case u.DestinationName == "":
			return c.invalid("Invalid Upstreams[%d]: upstream destination name cannot be empty", i)
		case u.LocalBindPort == 0 && u.LocalBindSocketPath == "":
			return c.invalid("Invalid Upstreams[%d]: upstream local bind port or local socket path must be defined", i)
		case u.LocalBindPort != 0 && u.LocalBindSocketPath != "":
			return c.invalid("Invalid Upstreams[%d]: only one of upstream local bind port or local socket path can be defined", i)
		case taken:
			return c.invalid("Invalid Upstreams[%d]: it listens at the address of upstream %s", i, other)
		}
	}
	for _, path := range p.Expose.Paths {
		if path.Path == "" || path.Path[0] != '/' || path.ListenerPort <= 0 || path.ListenerPort > 65535 || path.LocalPathPort <= 0 ||
			path.Protocol != "http" && path.Protocol != "http2" && path.Protocol != "" {
			return c.invalid("Invalid Expose.Paths: %+v", path)
		}
	}
	return nil
}
