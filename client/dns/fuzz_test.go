package dns_test

import (
	"net/netip"
	"testing"

	miekg "github.com/miekg/dns"

	"github.com/open-nomad/open-nomad/client/dns"
)

// No packet crashes the handler, and every answer can be sent, is within the size limit, and answers the question.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"web.service.nomad.", "_web._tcp.service.team.ns.dc1.dc.consul.", "nomad.", "c0000201.addr.nomad.",
		"..service.nomad.", "large.service.nomad.", "a\\.b.service.nomad."} {
		for _, kind := range []uint16{miekg.TypeA, miekg.TypeSRV, miekg.TypeANY, miekg.TypeSOA} {
			m := new(miekg.Msg).SetQuestion(name, kind)
			if raw, err := m.Pack(); err == nil {
				f.Add(raw)
			}
			if raw, err := m.SetEdns0(4096, true).Pack(); err == nil {
				f.Add(raw)
			}
		}
	}
	s := dns.New(dns.Config{Domains: []string{"nomad", "consul"}, TTL: dns.DefaultTTL, NodeID: "n1", Datacenter: "dc1",
		Gateways: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.2:53")}, Catalogue: testServices(),
		Recursors: []netip.AddrPort{}, Peer: func(netip.Addr) (string, bool) { return "default", true }})
	source := netip.MustParseAddr("127.0.0.6")
	f.Fuzz(func(t *testing.T, raw []byte) {
		req := new(miekg.Msg)
		if req.Unpack(raw) != nil || len(req.Question) == 1 && !ours(req.Question[0].Name) {
			return
		}
		resp, err := s.Answer(raw, source)
		if err != nil || resp == nil {
			return // over the rate
		}
		out, err := resp.Pack()
		if err != nil {
			t.Fatalf("pack %v: %v", resp, err)
		}
		if len(out) > dns.MaxUDP || !resp.Response || resp.Id != req.Id {
			t.Errorf("answer of %d bytes to %v: %v", len(out), req, resp)
		}
	})
}

// ours reports whether a name is not forwarded.
func ours(name string) bool {
	return miekg.IsSubDomain("nomad.", name) || miekg.IsSubDomain("consul.", name)
}
