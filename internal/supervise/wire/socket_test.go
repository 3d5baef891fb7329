package wire

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Only UDP sockets are copied: the number may be that of another file by then.
func TestDescriptor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := Dial(dir) // the peer is this process
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	file := func(s interface{ File() (*os.File, error) }, err error) *os.File {
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.File()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	name := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir.Name(), "datagram")}
	for _, tc := range []struct {
		name string
		file *os.File
		want bool
	}{
		{"udp", file(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})), true},
		{"udp6", file(net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})), true},
		{"tcp", file(net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})), false},
		{"unix datagram", file(net.ListenUnixgram("unixgram", name)), false},
		{"own connection", conn, false},
		{"directory", dir, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fd, err := Descriptor(conn, int(tc.file.Fd()))
			if got := err == nil; got != tc.want {
				t.Errorf("Descriptor() = %d, %v, want a copy: %t", fd, err, tc.want)
			}
			if err == nil {
				syscall.Close(fd)
			}
		})
	}
	for _, number := range []int{-1, 1 << 30} {
		if fd, err := Descriptor(conn, number); err == nil {
			t.Errorf("Descriptor(%d) = %d, want an error", number, fd)
		}
	}
}
