package jobrules

import "github.com/open-nomad/open-nomad/nomad"

// consulCheckAddress checks where Consul connects to for a check.
func (r *serviceRules) consulCheckAddress(f *faults, c *nomad.ServiceCheck, s *nomad.Service, t *nomad.Task) {
	switch c.AddressMode {
	case "", addressHost:
	case addressDriver:
		if t == nil {
			f.add("address_mode is \"driver\", but a group has no driver: use host, alloc or alloc_ipv6, or remove it")
		}
	case addressAlloc, addressAllocIPv6:
		if t != nil {
			f.add("address_mode is %q, which only checks of a group's services can have: use host or driver, or remove it", c.AddressMode)
		}
	default:
		f.add("address_mode is %q: use host, driver, alloc or alloc_ipv6, or remove it", c.AddressMode)
	}
	switch {
	case c.PortLabel != "":
		r.port(f, c.PortLabel, t, t == nil || c.AddressMode == addressDriver)
	case s.PortLabel == "" && !c.Expose: // the servers add the port of an exposed check
		f.add("Check %s invalid: check requires a port but neither check nor service %q have a port", c.Name, s.Name)
	}
}

// consulCheck checks what only services of Consul have. Consul gets the fields for TLS and gRPC as they are.
func consulCheck(f *faults, c *nomad.ServiceCheck, s *nomad.Service, t *nomad.Task) {
	sidecar := t == nil && s.Connect != nil && s.Connect.SidecarService != nil
	if c.Type == nomad.ServiceCheckTCP && sidecar {
		f.add("tcp checks are not valid for Connect enabled services")
	}
	if !c.Expose {
		return
	}
	if c.Type != nomad.ServiceCheckHTTP && c.Type != nomad.ServiceCheckGRPC {
		f.add("expose is set, but only http and grpc checks can be exposed: remove it")
	}
	if !sidecar {
		f.add("expose is set, but only services of a group with a sidecar_service block can expose checks: remove it")
	}
}
