package sockets_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/internal/sockets"
)

// sockets on every kind of address are found with their process; clients are not.
func TestListening(t *testing.T) {
	for _, c := range []struct {
		network, address string
		at, notAt        []string
	}{
		{"tcp4", "127.0.0.1:0", []string{"127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"}, []string{"127.0.0.2", "::1"}},
		{"tcp4", "0.0.0.0:0", []string{"127.0.0.1", "192.0.2.1"}, nil},
		{"tcp6", "[::1]:0", []string{"::1", "::"}, []string{"127.0.0.1", "::2"}},
		{"tcp", "[::]:0", []string{"127.0.0.1", "2001:db8::1"}, nil},
		{"udp4", "127.0.0.1:0", []string{"127.0.0.1"}, []string{"127.0.0.2"}},
		{"udp6", "[::1]:0", []string{"::1"}, []string{"127.0.0.1"}},
		{"udp", "[::]:0", []string{"127.0.0.1"}, nil},
	} {
		t.Run(c.network+" "+c.address, func(t *testing.T) {
			port, network := listen(t, c.network, c.address)
			list, err := sockets.Listening(func(p uint16) bool { return p == port })
			if err != nil || len(list) != 1 || list[0].Network != network || list[0].Addr.Port() != port {
				t.Fatalf("Listening() = %v, %v, want one %s socket on port %d", list, err, network, port)
			}
			for _, ip := range c.at {
				if !list[0].At(netip.MustParseAddr(ip)) {
					t.Errorf("%s is not at %s", list[0], ip)
				}
			}
			for _, ip := range c.notAt {
				if list[0].At(netip.MustParseAddr(ip)) {
					t.Errorf("%s is at %s", list[0], ip)
				}
			}
			p, ok := sockets.Owner(t.Context(), list[0].Inode, []int{1 << 30, os.Getpid()})
			if !ok || p.PID != os.Getpid() || p.Name == "" {
				t.Errorf("Owner() = %v, %v, want this process", p, ok)
			}
			if p, ok := sockets.Owner(t.Context(), list[0].Inode, []int{os.Getppid()}); ok {
				t.Errorf("Owner() among other processes = %v", p)
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if p, ok := sockets.Owner(over, list[0].Inode, []int{os.Getpid()}); ok {
				t.Errorf("Owner() without time = %v", p)
			}
		})
	}
}

func listen(t *testing.T, network, address string) (port uint16, kind string) {
	t.Helper()
	var at net.Addr
	if network[:3] == "tcp" {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		at = l.Addr()
		conn, err := net.Dial("tcp", fmt.Sprintf("localhost:%d", at.(*net.TCPAddr).Port)) // a client is not a listener
		if err == nil {
			t.Cleanup(func() { conn.Close() })
		}
	} else {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		at = c.LocalAddr()
	}
	return netip.MustParseAddrPort(at.String()).Port(), network[:3]
}
