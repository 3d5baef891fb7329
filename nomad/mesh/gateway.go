package mesh

import (
	"cmp"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// connectTimeout is the default time that a gateway has to connect to a service.
const connectTimeout = 5 * time.Second

// anyAddress is where a gateway listens in the network namespace of its group.
const anyAddress = "0.0.0.0"

// clientPort is the port of a bind address that the client replaces by that of the allocation.
const clientPort = -1

// addGateway adds the task of a gateway, its ports and the defaults of its proxy.
func addGateway(tg *nomad.TaskGroup, s *nomad.Service) {
	g := s.Connect.Gateway
	role := g.Role()
	gatewayDefaults(tg, g)
	switch role {
	case connect.RoleTerminating:
		if s.PortLabel == "" {
			s.PortLabel = connect.PortLabel(role, s.Name)
			addPort(tg, s.PortLabel)
		}
	case connect.RoleMesh:
		addPort(tg, connect.LANLabel(s.Name))
	}
	t := addTask(tg, s, role)
	least := consulVersion
	if g.Ingress.RestrictsTLS() {
		least = tlsVersion
	}
	constrain(&t.Constraints, leastVersion(least), withGRPC)
	if onHost(tg) && t.Driver == driverDocker && t.Config["network_mode"] == nil {
		t.Config["network_mode"] = nomad.NetworkModeHost
	}
}

// onHost reports whether a group has the network of its node.
func onHost(tg *nomad.TaskGroup) bool { return tg.NetworkMode() == nomad.NetworkModeHost }

// gatewayDefaults sets the defaults of a gateway and its proxy. In a network namespace it listens on all addresses, where Consul
// would use those of the node.
func gatewayDefaults(tg *nomad.TaskGroup, g *connect.Gateway) {
	if g.Ingress != nil {
		for _, l := range g.Ingress.Listeners {
			l.Protocol = cmp.Or(l.Protocol, "tcp")
		}
	}
	if g.Proxy == nil {
		g.Proxy = &connect.GatewayProxy{}
	}
	if g.Proxy.ConnectTimeout == nil {
		d := connectTimeout
		g.Proxy.ConnectTimeout = &d
	}
	if onHost(tg) {
		return
	}
	g.Proxy.EnvoyGatewayNoDefaultBind, g.Proxy.EnvoyGatewayBindTaggedAddresses = true, false
	g.Proxy.EnvoyGatewayBindAddresses = bindAddresses(g)
}

// bindAddresses returns where a gateway listens in the network namespace of its group.
func bindAddresses(g *connect.Gateway) map[string]*connect.GatewayBindAddress {
	out := map[string]*connect.GatewayBindAddress{}
	add := func(name string, port int) { out[name] = &connect.GatewayBindAddress{Address: anyAddress, Port: port} }
	switch g.Role() {
	case connect.RoleIngress:
		for _, l := range g.Ingress.Listeners {
			for _, s := range l.Services {
				add(s.Name, l.Port)
			}
		}
	case connect.RoleTerminating:
		add("default", clientPort)
	case connect.RoleMesh:
		add("wan", clientPort)
		add("lan", clientPort)
	}
	return out
}
