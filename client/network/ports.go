package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sockets"
)

// portPoll is the interval of the attempts to get a port.
const portPoll = 50 * time.Millisecond

// ErrPortInUse means that a port of the node is not mapped to an allocation, since something else receives on it.
var ErrPortInUse = sockets.ErrInUse

// errOwnPort is an ErrPortInUse that remains.
var errOwnPort = fmt.Errorf("%w: it is a port of the agent (HTTP, RPC or gossip), which no allocation gets: use another port", ErrPortInUse)

// readPorts reads the mapped ports of earlier agents, once.
func (s *Set) readPorts(ctx context.Context, d *safefs.Dir) error {
	select {
	case s.shared <- struct{}{}:
		defer func() { <-s.shared }()
	case <-ctx.Done():
		return fmt.Errorf("read the mapped ports: %w", ctx.Err())
	}
	if s.portsRead {
		return nil
	}
	ids, err := recorded(d)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := load(d, id)
		if err != nil {
			s.cfg.Log.Warn("read the mapped ports of an allocation", "alloc", id, "err", err)
			continue
		}
		if r != nil {
			s.mu.Lock()
			s.ports[id] = r.Ports
			s.mu.Unlock()
		}
	}
	s.portsRead = true
	return nil
}

// claim reserves the ports of an allocation. It waits a short time until others have released them: the network of an
// allocation that has ended is removed at about the time at which the next one starts.
func (s *Set) claim(ctx context.Context, r *record) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Port)
	defer cancel()
	for {
		err := s.tryClaim(ctx, r)
		if err == nil || errors.Is(err, errOwnPort) {
			return err
		}
		select {
		case <-time.After(portPoll):
		case <-ctx.Done():
			return err
		}
	}
}

// tryClaim reserves the ports unless another allocation, the agent or another program of the node receives on one.
func (s *Set) tryClaim(ctx context.Context, r *record) error {
	if err := s.notOwn(r.Ports); err != nil {
		return err
	}
	if err := s.reserve(r); err != nil {
		return err
	}
	err := notListening(ctx, r.Ports)
	if err != nil {
		s.release(r.Alloc)
	}
	return err
}

// notOwn returns an error if a port belongs to the agent, also if nothing listens on it at the moment.
func (s *Set) notOwn(list []portMapping) error {
	for _, p := range list {
		if slices.Contains(s.cfg.AgentPorts, p.HostPort) {
			return fmt.Errorf("map port %d: %w", p.HostPort, errOwnPort)
		}
	}
	return nil
}

// reserve reserves the ports in this agent. A mapped port has no listener, so allocations detect each other's ports here.
func (s *Set) reserve(r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for alloc, list := range s.ports {
		if alloc == r.Alloc {
			continue
		}
		for _, p := range r.Ports {
			if slices.ContainsFunc(list, p.overlaps) {
				return fmt.Errorf("map port %d: %w: it is mapped to allocation %s, whose network is not removed", p.HostPort, ErrPortInUse, alloc)
			}
		}
	}
	s.ports[r.Alloc] = r.Ports
	return nil
}

// release ends the reservation of an allocation's ports.
func (s *Set) release(alloc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ports, alloc)
}

// overlaps reports whether both mappings receive the same packets.
func (p portMapping) overlaps(q portMapping) bool {
	return p.HostPort == q.HostPort && p.Protocol == q.Protocol &&
		(p.everywhere() || q.everywhere() || p.address() == q.address())
}

// address returns the address of the node, invalid for all of them.
func (p portMapping) address() netip.Addr {
	ip, _ := netip.ParseAddr(p.HostIP)
	return ip.Unmap()
}

func (p portMapping) everywhere() bool { return !p.address().IsValid() || p.address().IsUnspecified() }

// notListening returns an error if a socket of the node receives on one of the ports: the mapping would take its
// connections, since the kernel rewrites destinations before it looks for a listener.
func notListening(ctx context.Context, list []portMapping) error {
	var ports []sockets.Port
	for _, p := range list {
		ports = append(ports, sockets.Port{Network: p.Protocol, Number: p.HostPort, IP: p.address()})
	}
	return sockets.Free(ctx, ports)
}
