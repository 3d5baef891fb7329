package feasible

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	held     map[int]int
}

func (h *host) free(port int) bool {
	return port > 0 && port < nomad.MaxValidPort && h.held[port] == 0 && !h.reserved.has(port)
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
	h := &host{ip: ip, held: map[int]int{}}
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
	before := a.held[port]
	after := before + delta
	switch {
	case before <= 1 && after > 1:
		p.clashes++
	case before > 1 && after <= 1:
		p.clashes--
	}
	if after <= 0 {
		delete(a.held, port)
		return
	}
	a.held[port] = after
}

// claim is one port picked for an ask that is not complete yet.
type claim struct {
	at   *host
	port int
}

// picker picks the ports of one ask. Its claims prevent an ask from colliding with itself.
type picker struct {
	node   *nomad.Node
	ports  *ports
	rng    *rand.Rand
	claims []claim
}

func (k *picker) free(a *address, port int) bool {
	if !a.free(port) {
		return false
	}
	for _, c := range k.claims {
		if c.at == a.host && c.port == port {
			return false
		}
	}
	return true
}

// network returns the network with its ports and address filled in and the port mappings, or the
// dimension that is exhausted.
func (k *picker) network(ask *nomad.NetworkResource) (*nomad.NetworkResource, nomad.AllocatedPorts, string) {
	if len(ask.ReservedPorts)+len(ask.DynamicPorts) == 0 {
		return k.portless(ask), nil, ""
	}
	offer := *ask
	offer.ReservedPorts = append([]nomad.Port(nil), ask.ReservedPorts...)
	offer.DynamicPorts = append([]nomad.Port(nil), ask.DynamicPorts...)
	var mapped nomad.AllocatedPorts
	for i := range offer.ReservedPorts {
		m, why := k.static(&offer.ReservedPorts[i])
		if why != "" {
			return nil, nil, why
		}
		mapped = append(mapped, m)
	}
	for i := range offer.DynamicPorts {
		m, why := k.dynamic(&offer.DynamicPorts[i])
		if why != "" {
			return nil, nil, why
		}
		mapped = append(mapped, m)
	}
	offer.IP = mapped[0].HostIP
	return &offer, mapped, ""
}

// portless assigns the default address to a network without ports.
func (k *picker) portless(ask *nomad.NetworkResource) *nomad.NetworkResource {
	offer := *ask
	for _, a := range k.ports.addresses {
		if a.network == defaultNetwork {
			offer.IP = a.ip
			break
		}
	}
	return &offer
}

// reachable reports whether the node has an address for the ports of tasks.
func (k *picker) reachable() bool {
	return slices.ContainsFunc(k.ports.addresses, func(a *address) bool { return a.network == defaultNetwork })
}

// hosts returns the addresses of the port's host network. It names the network if there are none.
func (k *picker) hosts(p *nomad.Port) (out []*address, why string) {
	name := hostNetwork(p)
	if resolved, ok := interpolate(name, k.node); ok {
		name = resolved
	}
	for _, a := range k.ports.addresses {
		if a.network == name {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Sprintf("network: no addresses available for %s network", name)
	}
	return out, ""
}

// static takes the port at the first address where it is free.
func (k *picker) static(p *nomad.Port) (nomad.AllocatedPortMapping, string) {
	if p.Value <= 0 || p.Value >= nomad.MaxValidPort {
		return nomad.AllocatedPortMapping{}, fmt.Sprintf("network: invalid port %d (out of range)", p.Value)
	}
	hosts, why := k.hosts(p)
	if why != "" {
		return nomad.AllocatedPortMapping{}, why
	}
	for _, a := range hosts {
		if p.IgnoreCollision || k.free(a, p.Value) {
			return k.take(a, p), ""
		}
	}
	return nomad.AllocatedPortMapping{}, fmt.Sprintf("%s%s=%d", portCollision, p.Label, p.Value)
}

// dynamic takes a free port of the node's range.
func (k *picker) dynamic(p *nomad.Port) (nomad.AllocatedPortMapping, string) {
	hosts, why := k.hosts(p)
	if why != "" {
		return nomad.AllocatedPortMapping{}, why
	}
	for _, a := range hosts {
		if port := k.pick(a); port > 0 {
			p.Value = port
			return k.take(a, p), ""
		}
	}
	return nomad.AllocatedPortMapping{}, "network: dynamic port selection failed"
}

// pick returns a free dynamic port, or 0 if none is free.
func (k *picker) pick(a *address) int {
	span := k.ports.high - k.ports.low + 1
	if span <= 0 {
		return 0
	}
	for range randomPortTries {
		if port := k.ports.low + k.rng.IntN(span); k.free(a, port) {
			return port
		}
	}
	start := k.rng.IntN(span)
	for i := range span {
		if port := k.ports.low + (start+i)%span; k.free(a, port) {
			return port
		}
	}
	return 0
}

func (k *picker) take(a *address, p *nomad.Port) nomad.AllocatedPortMapping {
	if !p.IgnoreCollision {
		k.claims = append(k.claims, claim{a.host, p.Value})
	}
	if p.To == -1 { // the same port inside as outside
		p.To = p.Value
	}
	return nomad.AllocatedPortMapping{
		Label: p.Label, Value: p.Value, To: p.To, HostIP: a.ip, IgnoreCollision: p.IgnoreCollision,
	}
}
