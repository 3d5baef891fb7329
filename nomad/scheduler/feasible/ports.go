package feasible

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// defaultNetwork is the host network of a port that does not name one.
const defaultNetwork = "default"

// portCollision begins the dimension of a static port that is in use.
const portCollision = "network: reserved port collision "

// randomPortTries is how many random dynamic ports are tried before a linear search.
const randomPortTries = 20

// portSet is a bitmap over all port numbers.
type portSet [nomad.MaxValidPort / 64]uint64

func (s *portSet) add(port int)      { s[port/64] |= 1 << (port % 64) }
func (s *portSet) has(port int) bool { return s != nil && s[port/64]&(1<<(port%64)) != 0 }

// parsePorts reads "22,80,8500-8600" into the set.
func (s *portSet) parse(spec string) error {
	for part := range strings.SplitSeq(spec, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		lo, hi, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(strings.TrimSpace(lo))
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(strings.TrimSpace(hi))
		}
		if err != nil || first < 0 || last < first || last >= nomad.MaxValidPort {
			return fmt.Errorf("reserved ports %q: bad range %q", spec, part)
		}
		for p := first; p <= last; p++ {
			s.add(p)
		}
	}
	return nil
}

// address is one host address of a node in one of its host networks.
type address struct {
	network string
	*host
}

// host is one IP address of a node and the ports in use on it. All host networks of the address share them.
type host struct {
	ip       string
	reserved *portSet
	uses     map[int]int
}

func (h *host) free(port int) bool {
	return port > 0 && port < nomad.MaxValidPort && h.uses[port] == 0 && !h.reserved.has(port)
}

// ports is the port index of one node.
type ports struct {
	addresses []*address
	hosts     []*host
	low, high int // dynamic ports, inclusive
	clashes   int // ports in use more than once
}

func newPorts(node *nomad.Node) (*ports, error) {
	p := &ports{low: nomad.DefaultMinDynamicPort, high: nomad.DefaultMaxDynamicPort}
	r := node.NodeResources
	if r.MinDynamicPort > 0 {
		p.low = r.MinDynamicPort
	}
	if r.MaxDynamicPort > 0 {
		p.high = min(r.MaxDynamicPort, nomad.MaxValidPort-1)
	}
	everywhere := ""
	if node.ReservedResources != nil {
		everywhere = node.ReservedResources.Networks.ReservedHostPorts
	}
	for _, n := range r.NodeNetworks {
		if n == nil { // a client may send null
			continue
		}
		for _, a := range n.Addresses {
			if err := p.addAddress(a.Alias, a.Address, everywhere, a.ReservedPorts); err != nil {
				return nil, err
			}
		}
	}
	withAddresses := len(p.addresses) > 0
	for _, n := range r.Networks {
		if withAddresses || n == nil || n.IP == "" {
			continue
		}
		if err := p.addAddress(defaultNetwork, n.IP, everywhere); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *ports) addAddress(network, ip string, reserved ...string) error {
	if network == "" {
		network = defaultNetwork
	}
	h := p.byIP(ip)
	for _, spec := range reserved {
		if strings.TrimSpace(spec) == "" {
			continue
		}
		if h.reserved == nil {
			h.reserved = &portSet{}
		}
		if err := h.reserved.parse(spec); err != nil {
			return fmt.Errorf("address %s: %w", ip, err)
		}
	}
	p.addresses = append(p.addresses, &address{network, h})
	return nil
}

// ValidPorts returns an error unless the text is a list of ports and ranges, such as "22,8500-8600".
func ValidPorts(spec string) error { return new(portSet).parse(spec) }

// byIP returns the host with the address and creates it if the node does not have it: older allocations still
// hold their ports there.
func (p *ports) byIP(ip string) *host {
	for _, h := range p.hosts {
		if h.ip == ip {
			return h
		}
	}
	h := &host{ip: ip, uses: map[int]int{}}
	p.hosts = append(p.hosts, h)
	return h
}

// count adds the ports of r, delta times.
func (p *ports) count(r *nomad.AllocatedResources, delta int) {
	if len(r.Shared.Ports) > 0 {
		for _, m := range r.Shared.Ports {
			if !m.IgnoreCollision {
				p.countPort(m.HostIP, m.Value, delta)
			}
		}
	} else {
		p.countNetworks(r.Shared.Networks, delta)
	}
	for _, t := range r.Tasks {
		p.countNetworks(t.Networks, delta)
	}
}

func (p *ports) countNetworks(networks nomad.Networks, delta int) {
	for _, n := range networks {
		for _, list := range [][]nomad.Port{n.ReservedPorts, n.DynamicPorts} {
			for _, port := range list {
				if !port.IgnoreCollision {
					p.countPort(n.IP, port.Value, delta)
				}
			}
		}
	}
}

func (p *ports) countPort(ip string, port, delta int) {
	if port <= 0 || port >= nomad.MaxValidPort {
		return
	}
	a := p.byIP(ip)
	before := a.uses[port]
	after := before + delta
	switch {
	case before <= 1 && after > 1:
		p.clashes++
	case before > 1 && after <= 1:
		p.clashes--
	}
	if after <= 0 {
		delete(a.uses, port)
		return
	}
	a.uses[port] = after
}
