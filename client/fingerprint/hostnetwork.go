package fingerprint

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// defaultAlias is the host network of the default interface.
const defaultAlias = "default"

// has reports whether the address of the device belongs to the host network.
func (n *HostNetwork) has(device string, a netip.Addr) bool {
	return (n.Interface == "" || n.Interface == device) &&
		(len(n.Within) == 0 || slices.ContainsFunc(n.Within, func(p netip.Prefix) bool { return p.Contains(a) }))
}

// hostNetworks returns the host networks as a node reports them.
func (c *Config) hostNetworks() map[string]*nomad.ClientHostNetworkConfig {
	if len(c.HostNetworks) == 0 {
		return nil
	}
	out := map[string]*nomad.ClientHostNetworkConfig{}
	for _, n := range c.HostNetworks {
		out[n.Name] = &nomad.ClientHostNetworkConfig{Name: n.Name, CIDR: n.CIDR, Interface: n.Interface, ReservedPorts: n.ReservedPorts}
	}
	return out
}

// nodeNetworks returns the default interface and each other one with an address of a host network. An address is
// listed once for each of its host networks.
func (h *Host) nodeNetworks(main *net.Interface, addrs []netip.Addr) ([]*nomad.NodeNetworkResource, error) {
	var out []*nomad.NodeNetworkResource
	if n := h.nodeNetwork(main, addrs, true); n != nil {
		out = append(out, n)
	}
	if len(h.cfg.HostNetworks) == 0 {
		return out, nil
	}
	all, err := net.Interfaces()
	if err != nil {
		return out, fmt.Errorf("list network interfaces: %w", err)
	}
	var errs []error
	for i := range all {
		if all[i].Index == main.Index {
			continue
		}
		addrs, err := h.addresses(&all[i])
		errs = append(errs, err)
		if n := h.nodeNetwork(&all[i], addrs, false); n != nil {
			out = append(out, n)
		}
	}
	return out, errors.Join(errs...)
}

// nodeNetwork returns an interface and its addresses that have a host network, or nil if there are none.
func (h *Host) nodeNetwork(ifc *net.Interface, addrs []netip.Addr, main bool) *nomad.NodeNetworkResource {
	out := &nomad.NodeNetworkResource{Mode: nomad.NetworkModeHost, Device: ifc.Name, MacAddress: ifc.HardwareAddr.String(),
		Speed: h.linkSpeed(ifc)}
	for _, a := range addrs {
		family := nomad.NodeNetworkAF_IPv4
		if a.Is6() {
			family = nomad.NodeNetworkAF_IPv6
		}
		add := func(alias, reserved string) {
			out.Addresses = append(out.Addresses,
				nomad.NodeNetworkAddress{Family: family, Alias: alias, Address: a.String(), ReservedPorts: reserved})
		}
		if main {
			add(defaultAlias, h.cfg.Reserved.ports())
		}
		for _, n := range h.cfg.HostNetworks {
			if n.has(ifc.Name, a) {
				add(n.Name, n.ReservedPorts)
			}
		}
	}
	if len(out.Addresses) == 0 {
		return nil
	}
	return out
}
