package connect

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// listeningEvery is the interval of the check of a sidecar's port.
const listeningEvery = "10s"

// Add adds the mesh part of a service of a group to its registration, which has the ID and the name already. It changes
// nothing for a service without a connect block. Source: compat/consul.md, section 12.
func Add(w *service.Workload, s *nomad.Service, r *api.AgentServiceRegistration) error {
	c := s.Connect
	if c == nil {
		return nil
	}
	p := part{w, s, r.ID}
	var err error
	switch {
	case c.Native:
		r.Connect = &api.AgentServiceConnect{Native: true}
	case c.Gateway != nil:
		err = p.gateway(r)
	case c.SidecarService != nil:
		var sidecar *api.AgentServiceRegistration
		if sidecar, err = p.sidecar(); err == nil {
			r.Connect = &api.AgentServiceConnect{SidecarService: sidecar}
		}
	}
	if err != nil {
		return fmt.Errorf("connect block of service %q: %w", r.Name, err)
	}
	return nil
}

// part computes the mesh part of one service.
type part struct {
	w  *service.Workload
	s  *nomad.Service
	id string // of the service
}

func (p part) expand(s string) string { return p.w.Env.Expand(s) }

// port is a port of the allocation.
type port struct {
	host   string
	value  int // on the host
	inside int // in the network namespace
}

func (p port) address() string { return net.JoinHostPort(p.host, strconv.Itoa(p.value)) }

// port returns the port of a label of the group, or of a number. The servers make labels of names with references.
func (p part) port(literal string) (port, error) {
	label := p.expand(literal)
	n := p.w.Network
	host := ""
	if len(n.Networks) > 0 {
		host = n.Networks[0].IP
	}
	for _, m := range n.Ports {
		if m.Label != label && m.Label != literal {
			continue
		}
		out := port{cmp.Or(m.HostIP, host), m.Value, m.Value}
		if m.To > 0 {
			out.inside = m.To
		}
		return out, nil
	}
	number, err := strconv.Atoi(label)
	if err != nil || number <= 0 || number > 65535 {
		return port{}, fmt.Errorf("the group has no port %q", label)
	}
	return port{host, number, number}, nil
}

// sidecar returns the registration of the proxy beside the service.
func (p part) sidecar() (*api.AgentServiceRegistration, error) {
	s := p.s.Connect.SidecarService
	at, err := p.port(cmp.Or(s.Port, connect.PortLabel(connect.RoleProxy, p.s.Name)))
	if err != nil {
		return nil, err
	}
	proxy, err := p.proxy(s.Proxy, at)
	if err != nil {
		return nil, err
	}
	out := &api.AgentServiceRegistration{Tags: p.list(s.Tags), Address: at.host, Port: at.value, Meta: p.texts(s.Meta), Proxy: proxy,
		Checks: sidecarChecks(s, p.id, at.address())}
	return out, nil
}

// sidecarChecks returns the checks of the sidecar of a service, which listens at an address. As in Nomad 2.0, they have no IDs.
func sidecarChecks(s *connect.SidecarService, service, address string) api.AgentServiceChecks {
	out := api.AgentServiceChecks{{Name: "Connect Sidecar Aliasing " + service, AliasService: service}}
	if !s.DisableDefaultTCPCheck {
		out = append(out, &api.AgentServiceCheck{Name: "Connect Sidecar Listening", TCP: address, Interval: listeningEvery})
	}
	return out
}

// SidecarCheck is a check of a sidecar with the ID that Consul has given to it.
type SidecarCheck struct{ ID, Name string }

// SidecarChecks returns the checks of the sidecar of a service with an ID, nil without a sidecar.
func SidecarChecks(s *nomad.Service, service string) (out []SidecarCheck) {
	if s.Connect == nil || s.Connect.SidecarService == nil {
		return nil
	}
	checks := sidecarChecks(s.Connect.SidecarService, service, "")
	for i, c := range checks {
		id := "service:" + reconcile.SidecarID(service)
		if len(checks) > 1 {
			id = fmt.Sprintf("%s:%d", id, i+1)
		}
		out = append(out, SidecarCheck{id, c.Name})
	}
	return out
}

// anyAddress returns the address with which a proxy listens on all interfaces.
func anyAddress(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && !ip.Is4In6() {
		return "::"
	}
	return "0.0.0.0"
}

// list returns a list with its references interpolated, nil for an empty one.
func (p part) list(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, p.expand(s))
	}
	return out
}

// texts returns a map with its references interpolated.
func (p part) texts(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[p.expand(k)] = p.expand(v)
	}
	return out
}

// config returns the options of a proxy with their references interpolated. It never returns nil.
func (p part) config(in map[string]any) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[p.expand(k)] = p.value(v)
	}
	return out
}

func (p part) value(v any) any {
	switch v := v.(type) {
	case string:
		return p.expand(v)
	case map[string]any:
		return p.config(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = p.value(e)
		}
		return out
	}
	return v
}

// optional is config for options that are omitted if there are none.
func (p part) optional(in map[string]any) map[string]any {
	if len(in) == 0 {
		return nil
	}
	return p.config(in)
}

// upstreams returns the upstreams of a proxy.
func (p part) upstreams(in []connect.Upstream) []api.Upstream {
	var out []api.Upstream
	for _, u := range in {
		out = append(out, api.Upstream{
			DestinationName: p.expand(u.DestinationName), DestinationNamespace: p.expand(u.DestinationNamespace),
			DestinationPartition: p.expand(u.DestinationPartition), DestinationPeer: p.expand(u.DestinationPeer),
			DestinationType: api.UpstreamDestType(p.expand(u.DestinationType)), Datacenter: p.expand(u.Datacenter),
			LocalBindAddress: p.expand(u.LocalBindAddress), LocalBindPort: u.LocalBindPort,
			LocalBindSocketPath: p.expand(u.LocalBindSocketPath), LocalBindSocketMode: p.expand(u.LocalBindSocketMode),
			MeshGateway: api.MeshGatewayConfig{Mode: api.MeshGatewayMode(p.expand(u.MeshGateway.Mode))}, Config: p.optional(u.Config),
		})
	}
	return out
}
