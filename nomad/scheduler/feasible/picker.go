package feasible

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

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
