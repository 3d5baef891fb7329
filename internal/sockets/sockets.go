// Package sockets lists the sockets of a network namespace that accept connections or datagrams, and the processes
// that have them open. It reads /proc/net and /proc/<pid>/fd, so that it needs no module of the kernel.
//
// It changes nothing and decides nothing: client/network refuses to map a port on which the node listens, and
// client/portforward connects only to a socket of the allocation. The package keeps no state and starts no goroutine.
package sockets

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Socket is a TCP socket that listens, or a UDP socket without a peer.
type Socket struct {
	Network string // "tcp" or "udp"
	Addr    netip.AddrPort
	Inode   uint64
}

// String returns the socket as "tcp 127.0.0.1:80".
func (s Socket) String() string { return s.Network + " " + s.Addr.String() }

// At reports whether the socket receives what is sent to an address. The unspecified address of a socket is every
// address, also of the other family, because the kernel does not report IPV6_V6ONLY. An invalid or unspecified ip is
// every address.
func (s Socket) At(ip netip.Addr) bool {
	return !ip.IsValid() || ip.IsUnspecified() || s.Addr.Addr().IsUnspecified() || s.Addr.Addr() == ip.Unmap()
}

// The states of sockets in /proc/net that receive from everyone.
const (
	stateListen = "0A"
	stateNoPeer = "07" // of UDP
)

// tables are the files of the kernel, below /proc/<thread>/net.
var tables = []struct{ file, network, state string }{
	{"tcp", "tcp", stateListen}, {"tcp6", "tcp", stateListen},
	{"udp", "udp", stateNoPeer}, {"udp6", "udp", stateNoPeer},
}

// Listening returns the sockets of the calling thread's network namespace, for the ports that want selects.
func Listening(want func(port uint16) bool) ([]Socket, error) {
	var out []Socket
	for _, t := range tables {
		f, err := os.Open("/proc/thread-self/net/" + t.file)
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(t.file, "6") {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("list listening sockets: %w", err)
		}
		list, err := parse(f, t.network, t.state, want)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("list listening sockets: %s: %w", t.file, err)
		}
		out = append(out, list...)
	}
	return out, nil
}

// parse reads a table of the kernel.
func parse(r io.Reader, network, state string, want func(port uint16) bool) ([]Socket, error) {
	var out []Socket
	lines := bufio.NewScanner(r)
	lines.Scan() // the header
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			return nil, fmt.Errorf("line %q has too few fields", lines.Text())
		}
		if f[3] != state {
			continue
		}
		at, err := address(f[1])
		if err != nil {
			return nil, err
		}
		if !want(at.Port()) {
			continue
		}
		inode, err := strconv.ParseUint(f[9], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("inode %q: %w", f[9], err)
		}
		out = append(out, Socket{Network: network, Addr: at, Inode: inode})
	}
	return out, lines.Err()
}

// address parses "0100007F:0050": 32-bit words in the order of this machine's bytes, and a port.
func address(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if err := errors.Join(err, portErr); err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("address %q: not as the kernel writes it", text)
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("address %q: not as the kernel writes it", text)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), nil
}
