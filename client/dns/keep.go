package dns

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// take takes the sockets of the bridge that the previous agent has left. It closes others.
func (s *Server) take(ctx context.Context) {
	if s.cfg.Keeper == nil {
		return
	}
	for _, f := range s.cfg.Keeper.KeptSockets(ctx) {
		c, err := net.FilePacketConn(f)
		f.Close()
		if err != nil {
			continue
		}
		addr, err := netip.ParseAddrPort(c.LocalAddr().String())
		if err != nil || !slices.Contains(s.cfg.Gateways, addr) || s.kept[addr] != nil {
			c.Close()
			continue
		}
		s.kept[addr] = c
	}
}

// keep makes the keeper keep the sockets of the bridge. It does nothing before each address was tried, since the keeper
// has the sockets of all of them, and after the end of ctx: then they are for the next agent.
func (s *Server) keep(ctx context.Context) {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	select {
	case <-s.tried:
	default:
		return
	}
	if s.cfg.Keeper == nil || ctx.Err() != nil {
		return
	}
	var all []syscall.RawConn
	s.mu.Lock()
	for _, addr := range s.cfg.Gateways {
		if socks := s.bound[addr]; socks != nil {
			if raw, err := socks.udp.(*net.UDPConn).SyscallConn(); err == nil {
				all = append(all, raw)
			}
		}
	}
	s.mu.Unlock()
	s.cfg.Keeper.KeepSockets(ctx, all)
}
