package connect

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// GatewayKind returns the kind of a gateway as it is registered, "" if it has none.
func GatewayKind(g *connect.Gateway) api.ServiceKind {
	switch {
	case g == nil:
		return ""
	case g.Ingress != nil:
		return api.ServiceKindIngressGateway
	case g.Terminating != nil:
		return api.ServiceKindTerminatingGateway
	case g.Mesh != nil:
		return api.ServiceKindMeshGateway
	}
	return ""
}

// gateway makes a registration that of a gateway.
func (p part) gateway(r *api.AgentServiceRegistration) error {
	g := p.s.Connect.Gateway
	if r.Kind = GatewayKind(g); r.Kind == "" {
		return errors.New("the gateway needs an ingress, terminating or mesh block")
	}
	if g.Mesh != nil {
		if err := p.meshAddresses(r); err != nil {
			return err
		}
	}
	r.Proxy = &api.AgentServiceConnectProxyConfig{Config: p.gatewayConfig(g.Proxy)}
	return nil
}

// meshAddresses adds the addresses of a mesh gateway: wan is its service's, and lan that of the port inside of the
// datacenter.
func (p part) meshAddresses(r *api.AgentServiceRegistration) error {
	lan, err := p.w.Network.Resolve(service.Ask{Mode: p.s.AddressMode, Address: p.expand(p.s.Address), Port: connect.LANLabel(p.s.Name)})
	if err != nil {
		return fmt.Errorf("lan address: %w", err)
	}
	if r.TaggedAddresses == nil {
		r.TaggedAddresses = map[string]api.ServiceAddress{}
	}
	r.TaggedAddresses["lan"] = api.ServiceAddress{Address: lan.Host, Port: lan.Port}
	r.TaggedAddresses["wan"] = api.ServiceAddress{Address: r.Address, Port: r.Port}
	return nil
}

// gatewayConfig returns the options of a gateway's proxy. in may be nil.
func (p part) gatewayConfig(in *connect.GatewayProxy) map[string]any {
	if in == nil {
		return map[string]any{}
	}
	out := p.config(in.Config)
	if in.ConnectTimeout != nil {
		out["connect_timeout_ms"] = in.ConnectTimeout.Milliseconds()
	}
	if in.EnvoyGatewayBindTaggedAddresses {
		out["envoy_gateway_bind_tagged_addresses"] = true
	}
	if in.EnvoyGatewayNoDefaultBind {
		out["envoy_gateway_no_default_bind"] = true
	}
	if dns := p.expand(in.EnvoyDNSDiscoveryType); dns != "" {
		out["envoy_dns_discovery_type"] = dns
	}
	if len(in.EnvoyGatewayBindAddresses) > 0 {
		binds := map[string]any{}
		for name, a := range in.EnvoyGatewayBindAddresses {
			a = cmp.Or(a, &connect.GatewayBindAddress{})
			binds[p.expand(name)] = map[string]any{"address": p.expand(a.Address), "port": a.Port}
		}
		out["envoy_gateway_bind_addresses"] = binds
	}
	return out
}
