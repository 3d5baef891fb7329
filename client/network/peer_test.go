package network

import (
	"net/netip"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestPeer(t *testing.T) {
	s := New(Config{})
	add := func(alloc, namespace, mode, addr string) {
		s.addPeer(&Request{Alloc: &nomad.Allocation{ID: alloc, Namespace: namespace},
			Network: &nomad.NetworkResource{Mode: mode}}, &nomad.AllocNetworkStatus{Address: addr, AddressIPv6: "fd00::" + alloc})
	}
	add("1", "team", "bridge", "172.26.64.5")
	add("2", "other", "cni/x", "172.26.64.5")
	for addr, want := range map[string]string{"172.26.64.5": "team", "fd00::1": "team", "fd00::2": "", "172.26.64.6": ""} {
		if got, ok := s.Peer(netip.MustParseAddr(addr)); got != want || ok != (want != "") {
			t.Errorf("Peer(%s) = %q, %t, want %q", addr, got, ok, want)
		}
	}
	s.removePeer("1")
	add("3", "next", "bridge", "172.26.64.5")
	s.removePeer("1")
	if got, _ := s.Peer(netip.MustParseAddr("172.26.64.5")); got != "next" {
		t.Errorf("Peer() of an address that is in use again = %q, want next", got)
	}
}
