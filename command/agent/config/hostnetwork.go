package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// resolveHostNetworks replaces the templates of client.host_network.
func (s *Settings) resolveHostNetworks() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Client.HostNetwork)) {
		n := s.Client.HostNetwork[name]
		text, err := resolved(n.Interface, asIs, false)
		if err != nil {
			errs = append(errs, s.Fault("client.host_network."+name+".interface", "%v", err))
			continue
		}
		n.Interface = text
	}
	return errors.Join(errs...)
}

// checkHostNetworks checks the host networks and the reserved ports of the client.
func (s *Settings) checkHostNetworks() error {
	var errs []error
	if err := feasible.ValidPorts(s.Client.Reserved.ReservedPorts); err != nil {
		errs = append(errs, s.Fault("client.reserved.reserved_ports", "%v", err))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Client.HostNetwork)) {
		n, path := s.Client.HostNetwork[name], "client.host_network."+name
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '$' || r == 0x7f }) {
			errs = append(errs, s.Fault(path, "%q is not a network name: it must not contain spaces, control characters or $", name))
		}
		if _, err := prefixes(n.CIDR); err != nil {
			errs = append(errs, s.Fault(path+".cidr", "%v", err))
		}
		if err := feasible.ValidPorts(n.ReservedPorts); err != nil {
			errs = append(errs, s.Fault(path+".reserved_ports", "%v", err))
		}
	}
	return errors.Join(errs...)
}

// prefixes parses a list of networks, such as "10.0.0.0/8, fd00::/8".
func prefixes(cidr string) (out []netip.Prefix, err error) {
	for _, word := range list(cidr) {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8", word)
		}
		out = append(out, p)
	}
	return out, nil
}

// hostNetworks returns the host networks, sorted by name. They were checked before.
func (c *Client) hostNetworks() (out []fingerprint.HostNetwork) {
	for _, name := range slices.Sorted(maps.Keys(c.HostNetwork)) {
		n := c.HostNetwork[name]
		within, _ := prefixes(n.CIDR) // checked by checkHostNetworks
		out = append(out, fingerprint.HostNetwork{Name: name, CIDR: n.CIDR, Within: within, Interface: n.Interface,
			ReservedPorts: n.ReservedPorts})
	}
	return out
}
