package netfilter_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// advertise sends a router advertisement from a namespace to all nodes of the bridge.
func (s *site) advertise(ns string) {
	s.t.Helper()
	message := []byte{134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0} // a default route for 1,800 s; the kernel adds the checksum
	err := s.inside(ns, func() error {
		sock, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		defer unix.Close(sock)
		if err := unix.SetsockoptInt(sock, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
			return err
		}
		ifc, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		return unix.Sendto(sock, message, 0, &unix.SockaddrInet6{Addr: [16]byte{0: 0xff, 1: 2, 15: 1}, ZoneId: uint32(ifc.Index)})
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestRouterAdvertisement checks that an isolated allocation cannot become the router of the node. Nodes in some clouds
// accept advertisements on every interface.
func TestRouterAdvertisement(t *testing.T) {
	s := newSite(t)
	s.protect("a", false)
	run(t, "sysctl -qw net.ipv6.conf.nomad.accept_ra=2 net.ipv6.conf.nomad.accept_ra_defrtr=1")
	routes := func() string {
		out, err := exec.Command("ip", "-6", "route", "show", "default", "dev", "nomad").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	linkLocal := func() string {
		out, err := exec.Command("ip", "-n", "a", "-6", "addr", "show", "dev", "eth0", "scope", "link").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	testpace.Until(t, "the link-local address of a is usable", func() bool { return !strings.Contains(linkLocal(), "tentative") })
	s.advertise("a")
	// Not isolated: the node accepts the advertisement, after those of a.
	testpace.Until(t, "the node has a route", func() bool {
		s.advertise("c")
		return routes() != ""
	})
	_, after, _ := strings.Cut(linkLocal(), "inet6 ")
	if addr, _, found := strings.Cut(after, "/"); !found || strings.Contains(routes(), addr) {
		t.Errorf("an isolated allocation is the router of the node: %s", routes())
	}
}
