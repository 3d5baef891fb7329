// Package egress reads the destinations that a group on the bridge may reach, NetworkEgress of package nomad. Servers check
// them, and clients make packet filters of them.
package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Destination is an entry of nomad.NetworkEgress.Allow. An invalid Prefix stands for all addresses, and an empty Protocol
// for all protocols and ports.
type Destination struct {
	Prefix   netip.Prefix
	Protocol string // tcp or udp
	Port     uint16
}

// Parse reads "10.0.0.0/8", "10.1.2.3", "tcp:443" or "10.0.0.0/8:tcp:443". IPv6 has the same forms.
func Parse(s string) (Destination, error) {
	var d Destination
	address := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		before, protocol := "", s[:i]
		j := strings.LastIndexByte(protocol, ':')
		if j >= 0 {
			before, protocol = protocol[:j], protocol[j+1:]
		}
		if protocol == "tcp" || protocol == "udp" {
			port, err := strconv.ParseUint(s[i+1:], 10, 16)
			if err != nil || port == 0 {
				return d, fmt.Errorf("destination %q has no port from 1 to 65535 after %s", s, protocol)
			}
			d.Protocol, d.Port, address = protocol, uint16(port), before
			if j < 0 {
				return d, nil
			}
		}
	}
	var err error
	d.Prefix, err = parsePrefix(address)
	if err != nil {
		return d, fmt.Errorf("destination %q is malformed: use a form such as 10.0.0.0/8, tcp:443 or 10.0.0.0/8:tcp:443", s)
	}
	return d, nil
}

// parsePrefix reads a prefix or an address, which must not have a zone.
func parsePrefix(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(s)
	if err == nil && a.Zone() != "" {
		err = fmt.Errorf("address %q has a zone", s)
	}
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
}
