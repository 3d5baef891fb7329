package network

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
)

// Names of the bridge's network, as in Nomad 2.0.
const (
	networkName = "nomad"
	adminChain  = "NOMAD-ADMIN"
	ipamDir     = "/var/run/cni"
)

// conflist returns the CNI configuration of the bridge.
func (b *Bridge) conflist() []byte {
	type object = map[string]any
	ranges, routes := [][]object{}, []object{}
	for _, p := range b.subnets() {
		any := "0.0.0.0/0"
		if p.Addr().Is6() {
			any = "::/0"
		}
		ranges = append(ranges, []object{{"subnet": p.String()}})
		routes = append(routes, object{"dst": any})
	}
	raw, err := json.Marshal(object{
		"cniVersion": "0.4.0",
		"name":       networkName,
		"plugins": []object{
			{"type": "loopback"},
			{"type": "bridge", "bridge": b.Name, "ipMasq": true, "isGateway": true, "forceAddress": true, "hairpinMode": b.Hairpin,
				"ipam": object{"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": ipamDir}},
			{"type": "firewall", "backend": "iptables", "iptablesAdminChainName": adminChain},
			{"type": "portmap", "capabilities": object{"portMappings": true}, "snat": true},
		}})
	if err != nil {
		panic("network: encode the configuration of the bridge: " + err.Error()) // strings and booleans only
	}
	return raw
}

func (b *Bridge) subnets() []netip.Prefix {
	list := []netip.Prefix{b.Subnet}
	if b.Subnet6.IsValid() {
		list = append(list, b.Subnet6)
	}
	return list
}

// allowForward lets the node forward packets to the bridge, by a rule of the admin chain. The chain
// and the rule are never removed.
func (s *Set) allowForward(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scrubTimeout)
	defer cancel()
	select {
	case s.shared <- struct{}{}: // two operations would create the chain
		defer func() { <-s.shared }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the rules of the bridge: %w", ctx.Err())
	}
	subnets := s.cfg.Bridge.subnets()
	for i := len(subnets) - 1; i >= 0; i-- { // IPv6 first
		p := subnets[i]
		rule := []string{adminChain, "-o", s.cfg.Bridge.Name, "-d", p.String(), "-j", "ACCEPT"}
		if iptables(ctx, p.Addr(), append([]string{"-C"}, rule...)...) == nil {
			continue
		}
		if iptables(ctx, p.Addr(), "-n", "-L", adminChain) != nil {
			if err := iptables(ctx, p.Addr(), "-N", adminChain); err != nil {
				return err
			}
		}
		if err := iptables(ctx, p.Addr(), append([]string{"-A"}, rule...)...); err != nil {
			return err
		}
	}
	return nil
}

// iptables runs the program for the family of the address, on the table filter.
func iptables(ctx context.Context, family netip.Addr, args ...string) error {
	name := "iptables"
	if family.Is6() {
		name = "ip6tables"
	}
	_, err := program(ctx, name, nil, append([]string{"-w"}, args...)...)
	return err
}

// program runs a program of the package iptables.
func program(ctx context.Context, name string, input []byte, args ...string) ([]byte, error) {
	path, err := findProgram(name)
	if err != nil {
		return nil, err
	}
	return output(exec.CommandContext(ctx, path, args...), input)
}

// findProgram also searches the directories of administrators, which a service may not have in PATH.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
		if info, missing := os.Stat(dir + name); missing == nil && info.Mode()&0o111 != 0 {
			return dir + name, nil
		}
	}
	return "", fmt.Errorf("the network of a group on the bridge needs the program %s: install the package iptables: %w", name, err)
}
