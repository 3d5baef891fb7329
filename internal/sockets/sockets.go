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

// Connection returns the TCP socket of the calling thread's network namespace with these addresses. ok is false if there
// is none, which at the client's end means that the kernel has redirected the connection to another namespace or machine.
// The inode is 0 until the program accepts the connection.
func Connection(local, remote netip.AddrPort) (s Socket, ok bool, err error) {
	for _, t := range tables {
		if t.network != "tcp" {
			continue
		}
		err := each(t.file, func(f []string) error {
			if f[3] == stateListen {
				return nil
			}
			from, err := address(f[1])
			if err != nil || from != local {
				return err
			}
			to, err := address(f[2])
			if err != nil || to != remote {
				return err
			}
			inode, err := inodeOf(f)
			s, ok = Socket{Network: t.network, Addr: from, Inode: inode}, true
			return err
		})
		if ok || err != nil {
			return s, ok, err
		}
	}
	return Socket{}, false, nil
}

// tables are the files of the kernel, below /proc/<thread>/net.
var tables = []struct{ file, network, state string }{
	{"tcp", "tcp", stateListen}, {"tcp6", "tcp", stateListen},
	{"udp", "udp", stateNoPeer}, {"udp6", "udp", stateNoPeer},
}

// Listening returns the sockets of the calling thread's network namespace, for the ports that want selects.
func Listening(want func(port uint16) bool) ([]Socket, error) {
	var out []Socket
	for _, t := range tables {
		err := each(t.file, func(f []string) error {
			if f[3] != t.state {
				return nil
			}
			at, err := address(f[1])
			if err != nil || !want(at.Port()) {
				return err
			}
			inode, err := inodeOf(f)
			out = append(out, Socket{Network: t.network, Addr: at, Inode: inode})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// inodeOf returns the inode of the socket in a line of a table.
func inodeOf(fields []string) (uint64, error) {
	inode, err := strconv.ParseUint(fields[9], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("inode %q: %w", fields[9], err)
	}
	return inode, nil
}

// each calls use with the fields of each line of a table of the kernel.
func each(file string, use func(fields []string) error) error {
	f, err := os.Open("/proc/thread-self/net/" + file)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(file, "6") {
		return nil // a kernel without IPv6
	}
	if err != nil {
		return fmt.Errorf("list sockets: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // the header
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			return fmt.Errorf("list sockets: line %q of %s has too few fields", lines.Text(), file)
		}
		if err := use(fields); err != nil {
			return fmt.Errorf("list sockets: %s: %w", file, err)
		}
	}
	return lines.Err()
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
