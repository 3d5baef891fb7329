package mesh

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// healthPath is the path of gRPC's health checks.
const healthPath = "/grpc.health.v1.Health/Check"

// expose lets Consul reach the checks of a service without mutual TLS, as far as they ask for it: through a port of the proxy
// that only serves the path of the check.
func expose(tg *nomad.TaskGroup, s *nomad.Service) {
	sidecar := s.Connect.SidecarService
	if sidecar == nil {
		return
	}
	for _, c := range s.Checks {
		local := localPort(tg, s)
		if !c.Expose || local == 0 { // Validate refuses a service without a port
			continue
		}
		if c.PortLabel == "" {
			c.PortLabel = "svc_" + s.Name + "_ck_" + suffix(s.Name, c.Name, c.Path)
			addPort(tg, c.PortLabel)
		}
		if sidecar.Proxy == nil {
			sidecar.Proxy = &connect.Proxy{}
		}
		if sidecar.Proxy.Expose == nil {
			sidecar.Proxy.Expose = &connect.ExposeConfig{}
		}
		path := connect.ExposePath{Path: c.Path, Protocol: c.Protocol, LocalPathPort: local, ListenerPort: c.PortLabel}
		if c.Type == nomad.ServiceCheckGRPC {
			path.Path, path.Protocol = cmp.Or(c.Path, healthPath), cmp.Or(c.Protocol, "http2")
		}
		if paths := &sidecar.Proxy.Expose.Paths; !slices.Contains(*paths, path) {
			*paths = append(*paths, path)
		}
	}
}

// localPort returns the port on which a service listens in the network namespace of its group, 0 if it is not known before
// the placement.
func localPort(tg *nomad.TaskGroup, s *nomad.Service) int {
	if n, err := strconv.Atoi(s.PortLabel); err == nil {
		return max(n, 0)
	}
	p := port(tg, s.PortLabel)
	switch {
	case p == nil:
		return 0
	case p.To > 0:
		return p.To
	}
	return p.Value
}
