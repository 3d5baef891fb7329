package network

import (
	"net/netip"

	"github.com/open-nomad/open-nomad/nomad"
)

// peer is an allocation with an address on the bridge.
type peer struct{ alloc, namespace string }

// Peer returns the namespace of the allocation that has an address on the bridge of the node. An allocation has its
// addresses from the end of Connect to the beginning of Disconnect. Networks of CNI configurations are not included,
// since their addresses may be the same.
func (s *Set) Peer(addr netip.Addr) (namespace string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.peers[addr]
	return p.namespace, ok
}

// addPeer records the addresses of an allocation.
func (s *Set) addPeer(r *Request, status *nomad.AllocNetworkStatus) {
	if status == nil || r.Network.Mode != nomad.NetworkModeBridge {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range []string{status.Address, status.AddressIPv6} {
		if addr, err := netip.ParseAddr(text); err == nil {
			s.peers[addr] = peer{r.Alloc.ID, r.Alloc.Namespace}
		}
	}
}

// removePeer removes the addresses of an allocation.
func (s *Set) removePeer(alloc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, p := range s.peers {
		if p.alloc == alloc {
			delete(s.peers, addr)
		}
	}
}
