package dns

import (
	"context"
	"net"
	"net/netip"

	miekg "github.com/miekg/dns"
)

// Forwarding returns the number of questions that wait for recursors.
func (s *Server) Forwarding() int { return s.forward.asked.Count() }

// Answer answers a packet as a listener of the bridge does, nil for no answer.
func (s *Server) Answer(raw []byte, source netip.Addr) (*miekg.Msg, error) {
	req := new(miekg.Msg)
	if err := req.Unpack(raw); err != nil {
		return nil, err
	}
	h := &handler{Server: s, ctx: context.Background(), local: s.cfg.Gateways[0], bridge: true}
	resp, _ := h.reply(source, req)
	return resp, nil
}

// Timed returns a listener as that of DNS by TCP.
func Timed(l net.Listener) net.Listener { return timed{l} }
