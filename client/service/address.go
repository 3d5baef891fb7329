package service

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// The address modes of services and checks.
const (
	ModeAuto      = "auto"
	ModeHost      = "host"
	ModeDriver    = "driver"
	ModeAlloc     = "alloc"
	ModeAllocIPv6 = "alloc_ipv6"
)

// Address is the address of a service. Host is empty if the service has only a port number, and Port is 0 if it has
// none.
type Address struct {
	Host string
	Port int
}

// Network holds everything from which an address can be resolved.
type Network struct {
	Ports    nomad.AllocatedPorts      // of the group
	Networks nomad.Networks            // of the task, else of the group
	Driver   *drivers.TaskNetwork      // of the task, nil for none
	Status   *nomad.AllocNetworkStatus // of the allocation, nil for the host's network
}

// Ask is what a service or check configures about its address.
type Ask struct {
	Mode    string // "" means auto
	Address string // set by the job, only in mode auto
	Port    string // a label, a number or ""
}

// Resolve returns the address for a service or check. Source: compat/services-network.md, section 2, "Address
// resolution".
func (n *Network) Resolve(a Ask) (Address, error) {
	switch a.Mode {
	case "", ModeAuto:
		return n.auto(a)
	case ModeHost:
		return n.host(a.Port)
	case ModeDriver:
		return n.driver(a.Port)
	case ModeAlloc, ModeAllocIPv6:
		return n.alloc(a.Mode, a.Port)
	}
	return Address{}, fmt.Errorf("unknown address_mode %q", a.Mode)
}

func (n *Network) auto(a Ask) (Address, error) {
	if a.Address == "" {
		if n.Driver != nil && n.Driver.AutoAdvertise {
			return n.driver(a.Port)
		}
		return n.host(a.Port)
	}
	if a.Port == "" {
		return Address{Host: a.Address}, nil
	}
	if p, ok := n.groupPort(a.Port); ok {
		return Address{a.Address, p.Value}, nil
	}
	number, err := portNumber(a.Port)
	return Address{a.Address, number}, err
}

func (n *Network) host(port string) (Address, error) {
	if port == "" {
		if len(n.Networks) != 1 {
			return Address{}, nil
		}
		return Address{Host: n.Networks[0].IP}, nil
	}
	if p, ok := n.groupPort(port); ok {
		return Address{p.HostIP, p.Value}, nil
	}
	if addr, ok := n.networkPort(port); ok {
		return addr, nil
	}
	number, err := portNumber(port)
	return Address{Port: number}, err
}

func (n *Network) driver(port string) (Address, error) {
	if n.Driver == nil {
		return Address{}, errors.New("the driver of the task created no network: address_mode \"driver\" needs one")
	}
	if mapped, ok := n.Driver.PortMap[port]; ok && port != "" {
		if _, inGroup := n.groupPort(port); !inGroup {
			return Address{n.Driver.IP, mapped}, nil
		}
	}
	return n.inside(n.Driver.IP, port)
}

func (n *Network) alloc(mode, port string) (Address, error) {
	host := ""
	if n.Status != nil {
		host = n.Status.Address
		if mode == ModeAllocIPv6 {
			host = n.Status.AddressIPv6
		}
	}
	if host == "" {
		return Address{}, fmt.Errorf("the allocation has no network address: address_mode %q needs a network of its own", mode)
	}
	return n.inside(host, port)
}

// inside returns an address in the network namespace of the group.
func (n *Network) inside(host, port string) (Address, error) {
	if port == "" {
		return Address{Host: host}, nil
	}
	if p, ok := n.groupPort(port); ok {
		if p.To > 0 {
			return Address{host, p.To}, nil
		}
		return Address{host, p.Value}, nil
	}
	number, err := portNumber(port)
	return Address{host, number}, err
}

func (n *Network) groupPort(label string) (nomad.AllocatedPortMapping, bool) {
	for _, p := range n.Ports {
		if p.Label == label {
			return p, true
		}
	}
	return nomad.AllocatedPortMapping{}, false
}

// networkPort returns the address of a port of the task's networks.
func (n *Network) networkPort(label string) (Address, bool) {
	for _, net := range n.Networks {
		for _, ports := range [][]nomad.Port{net.ReservedPorts, net.DynamicPorts} {
			for _, p := range ports {
				if p.Label == label {
					return Address{net.IP, p.Value}, true
				}
			}
		}
	}
	return Address{}, false
}

// portNumber parses a port that is not a label.
func portNumber(port string) (int, error) {
	number, err := strconv.Atoi(port)
	if err != nil || number <= 0 || number > 65535 {
		return 0, fmt.Errorf("invalid port: %q: not a valid port mapping or numeric port", port)
	}
	return number, nil
}
