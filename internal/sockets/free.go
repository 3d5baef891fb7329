package sockets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// ErrInUse means that something of the node receives on a port.
var ErrInUse = errors.New("port in use on this node")

// ownerPatience limits the search for the process of a socket.
const ownerPatience = time.Second

// Port is a port of the node that an allocation is to get.
type Port struct {
	Network string // "tcp" or "udp"
	Number  int
	IP      netip.Addr // invalid for every address
}

// Free returns an ErrInUse, with the address and the process, if a socket of the calling thread's network namespace
// receives on one of the ports. A rule that redirects such a port would take the connections of that process.
func Free(ctx context.Context, ports []Port) error {
	if len(ports) == 0 {
		return nil
	}
	found, err := Listening(func(port uint16) bool {
		return slices.ContainsFunc(ports, func(p Port) bool { return p.Number == int(port) })
	})
	if err != nil {
		return err
	}
	for _, l := range found {
		if slices.ContainsFunc(ports, func(p Port) bool {
			return p.Number == int(l.Addr.Port()) && p.Network == l.Network && l.At(p.IP)
		}) {
			return fmt.Errorf("port %d: %w: %s listens on %s: stop it, use another port, or list the port in client.reserved.reserved_ports",
				l.Addr.Port(), ErrInUse, who(ctx, l), l)
		}
	}
	return nil
}

// who returns the process that has a socket open, for people.
func who(ctx context.Context, l Socket) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownerPatience)
	defer cancel()
	if pids, err := Processes(); err == nil {
		if p, ok := Owner(ctx, l.Inode, pids); ok {
			return p.String()
		}
	}
	return "a process"
}
