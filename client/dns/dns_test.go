package dns_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/open-nomad/open-nomad/client/dns"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// services is a catalogue with instances by "namespace/service".
type services map[string][]*catalog.Instance

func (s services) Size() int { return len(s) }

func (s services) Instances(_ context.Context, namespace, service string) ([]*catalog.Instance, error) {
	if service == "outage" {
		return nil, errors.New("no server answers")
	}
	return s[namespace+"/"+service], nil
}

// instance returns an instance in dc1. status is "" without checks.
func instance(node, address string, port int, status catalog.Status, tags ...string) *catalog.Instance {
	return &catalog.Instance{NodeAddress: "192.0.2.99", Registration: catalog.Registration{
		NodeID: node, Datacenter: "dc1", Address: address, Port: port, Status: status, Tags: tags}}
}

func testServices() services {
	far := instance("n3", "192.0.2.3", 8003, "", "v2")
	far.Datacenter = "dc2"
	weighted := instance("n1", "192.0.2.7", 80, catalog.Warning)
	weighted.Weights = &catalog.Weights{Passing: 10, Warning: 3}
	s := services{
		"default/web":      {far, instance("n2", "192.0.2.2", 8002, "passing", "v1", "with.dots"), instance("n1", "192.0.2.1", 8001, "", "V1"), instance("n4", "192.0.2.4", 8004, "critical", "down")},
		"default/six":      {instance("n1", "2001:db8::1", 80, "")},
		"default/node":     {instance("n1", "", 80, "")},
		"default/alias":    {instance("n1", "db.example.com", 5432, "")},
		"default/down":     {instance("n1", "192.0.2.9", 80, "critical")},
		"default/weighted": {weighted},
		"default/portless": {instance("n1", "192.0.2.8", 0, "")},
		"default/service":  {instance("n1", "192.0.2.10", 0, "")},
		"team/web":         {instance("n1", "198.51.100.1", 80, "")},
		"shared/db":        {instance("n1", "198.51.100.2", 80, "")},
		"secret/web":       {instance("n1", "198.51.100.3", 80, "")},
	}
	for i := range 100 {
		s["default/large"] = append(s["default/large"], instance("n2", fmt.Sprintf("10.0.0.%d", i), 1000+i, ""))
	}
	return s
}

// node is a running server.
type node struct {
	host, bridge string
	*dns.Server
}

// start runs a server. Peers are 127.0.0.5 in namespace team, and 127.0.0.6 in default.
func start(t testing.TB, edit func(*dns.Config)) *node {
	t.Helper()
	ready := make(chan struct{})
	close(ready)
	cfg := dns.Config{
		Domains: []string{"nomad", "consul"}, TTL: dns.DefaultTTL, NodeID: "n1", Datacenter: "dc1", Ready: ready,
		Address:        netip.MustParseAddrPort(testnet.Take(t).Addr(5300)),
		Gateways:       []netip.AddrPort{netip.MustParseAddrPort(testnet.Take(t).Addr(5300))},
		Subnets:        []netip.Prefix{netip.MustParsePrefix("127.0.0.0/29")},
		HostNamespaces: []string{"default", "team"}, SharedNamespaces: []string{"shared"},
		Recursors: nil, Catalogue: testServices(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Peer: func(a netip.Addr) (string, bool) {
			namespace, ok := map[string]string{"127.0.0.5": "team", "127.0.0.6": "default"}[a.String()]
			return namespace, ok
		},
	}
	if edit != nil {
		edit(&cfg)
	}
	n := &node{host: cfg.Address.String(), bridge: cfg.Gateways[0].String(), Server: dns.New(cfg)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { n.Run(ctx) }) //nolint:errcheck // ends with ctx
	t.Cleanup(func() { cancel(); wg.Wait() })
	if got := n.Gateways(t.Context()); len(got) != 1 {
		t.Fatalf("Gateways() = %v", got)
	}
	return n
}

// question is a question of a peer.
type question struct {
	name string
	kind uint16
	from string // "" is the host
	tcp  bool
	edit func(*miekg.Msg)
}

// ask returns the answer to a question.
func (n *node) ask(q question) (*miekg.Msg, error) {
	req := new(miekg.Msg).SetQuestion(miekg.Fqdn(q.name), q.kind)
	if q.edit != nil {
		q.edit(req)
	}
	c := &miekg.Client{Net: "udp", Timeout: 4 * time.Second, Dialer: &net.Dialer{}}
	addr := n.host
	if q.from != "" {
		addr = n.bridge
		c.Dialer.LocalAddr = &net.UDPAddr{IP: net.ParseIP(q.from)}
	}
	if q.tcp {
		c.Net = "tcp"
		if q.from != "" {
			c.Dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(q.from)}
		}
	}
	resp, _, err := c.Exchange(req, addr)
	return resp, err
}

// short returns the code and the records of an answer without names and TTLs, as `dig +short` prints them.
func short(m *miekg.Msg) string {
	if m.Rcode != miekg.RcodeSuccess {
		return miekg.RcodeToString[m.Rcode]
	}
	var out []string
	for _, r := range m.Answer {
		out = append(out, strings.TrimPrefix(r.String(), r.Header().String()))
	}
	return strings.Join(out, " | ")
}

func TestAnswers(t *testing.T) {
	n := start(t, nil)
	own := fmt.Sprintf("%x.addr.dc1.nomad.", netip.MustParseAddrPort(n.host).Addr().AsSlice())
	const web = "192.0.2.1 | 192.0.2.2 | 192.0.2.3"
	for _, c := range []struct {
		name, kind, want string
	}{
		{"web.service.nomad", "A", web},
		{"web.service.consul", "A", web},
		{"WEB.Service.NOMAD", "A", web},
		{"web.service.dc2.nomad", "A", "192.0.2.3"},
		{"web.service.dc2.dc.nomad", "A", "192.0.2.3"},
		{"web.service.default.ns.nomad", "A", web},
		{"web.service.team.ns.nomad", "A", "198.51.100.1"},
		{"web.service.team.ns.dc1.dc.nomad", "A", "198.51.100.1"},
		{"web.service.secret.ns.nomad", "A", "REFUSED"},
		{"v1.web.service.nomad", "A", "192.0.2.1 | 192.0.2.2"},
		{"with.dots.web.service.nomad", "A", "192.0.2.2"},
		{"_web._tcp.service.nomad", "SRV", "1 1 8001 c0000201.addr.dc1.nomad. | 1 1 8002 c0000202.addr.dc1.nomad. | 1 1 8003 c0000203.addr.dc2.nomad."},
		{"_web._v2.service.nomad", "SRV", "1 1 8003 c0000203.addr.dc2.nomad."},
		{"_web._udp.service.dc2.nomad", "A", "192.0.2.3"},
		{"_web.service.nomad", "A", ""},
		{"web.service.nomad", "AAAA", ""},
		{"web.service.nomad", "TXT", ""},
		{"six.service.nomad", "AAAA", "2001:db8::1"},
		{"six.service.nomad", "SRV", "1 1 80 20010db8000000000000000000000001.addr.dc1.nomad."},
		{"20010db8000000000000000000000001.addr.dc1.nomad", "AAAA", "2001:db8::1"},
		{"c0000203.addr.dc2.nomad", "A", "192.0.2.3"},
		{"c0000203.addr.nomad", "A", "192.0.2.3"},
		{"c00002.addr.nomad", "A", "NXDOMAIN"},
		{"node.service.nomad", "A", "192.0.2.99"},
		{"service.service.nomad", "A", "192.0.2.10"},
		{"alias.service.nomad", "A", "db.example.com."},
		{"alias.service.nomad", "SRV", "1 1 5432 db.example.com."},
		{"down.service.nomad", "A", ""},
		{"down.web.service.nomad", "A", ""},
		{"none.service.nomad", "A", "NXDOMAIN"},
		{"none.web.service.nomad", "A", "NXDOMAIN"},
		{"web.service.dc9.nomad", "A", "NXDOMAIN"},
		{"web.nomad", "A", "NXDOMAIN"},
		{"service.nomad", "A", ""},
		{"dc1.nomad", "A", ""},
		{"service.dc1.nomad", "A", ""},
		{"n1.node.nomad", "A", "NXDOMAIN"},
		{"weighted.service.nomad", "SRV", "1 3 80 c0000207.addr.dc1.nomad."},
		{"portless.service.nomad", "SRV", ""},
		{"web.service.nomad", "ANY", `"RFC8482" ""`},
		{"nomad", "SOA", own + " hostmaster.nomad. 1 3600 600 86400 5"},
		{"nomad", "NS", own},
		{"nomad", "A", ""},
		{"outage.service.nomad", "A", "SERVFAIL"},
		{"example.com", "A", "REFUSED"},
	} {
		t.Run(c.name+" "+c.kind, func(t *testing.T) {
			for _, tcp := range []bool{false, true} {
				got, err := n.ask(question{name: c.name, kind: miekg.StringToType[c.kind], tcp: tcp})
				if err != nil {
					t.Fatal(err)
				}
				if short(got) != c.want {
					t.Errorf("answer = %q, want %q", short(got), c.want)
				}
				negative := got.Rcode == miekg.RcodeNameError || got.Rcode == miekg.RcodeSuccess && len(got.Answer) == 0
				if soa := len(got.Ns) == 1 && got.Ns[0].Header().Rrtype == miekg.TypeSOA; soa != negative {
					t.Errorf("authority = %v, negative = %t", got.Ns, negative)
				}
			}
		})
	}
}

func TestTTLAndAdditional(t *testing.T) {
	n := start(t, nil)
	got, err := n.ask(question{name: "_web._tcp.service.nomad", kind: miekg.TypeSRV})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Extra) != 3 || !got.Authoritative || got.Answer[0].Header().Ttl != 5 {
		t.Errorf("additional = %v, authoritative = %t, ttl = %d", got.Extra, got.Authoritative, got.Answer[0].Header().Ttl)
	}
	if a, ok := got.Extra[0].(*miekg.A); !ok || a.Hdr.Name != "c0000201.addr.dc1.nomad." || a.A.String() != "192.0.2.1" {
		t.Errorf("additional = %v", got.Extra[0])
	}
}

func TestOnlyPassing(t *testing.T) {
	n := start(t, func(c *dns.Config) { c.OnlyPassing = true })
	got, err := n.ask(question{name: "weighted.service.nomad", kind: miekg.TypeA})
	if err != nil || short(got) != "" {
		t.Errorf("answer = %q, %v, want no instance in status warning", short(got), err)
	}
}

// A large answer is truncated by UDP and complete by TCP.
func TestTruncation(t *testing.T) {
	n := start(t, nil)
	for _, size := range []uint16{0, 600, 1232, 4096} {
		got, err := n.ask(question{name: "large.service.nomad", kind: miekg.TypeSRV, edit: func(m *miekg.Msg) {
			if size > 0 {
				m.SetEdns0(size, false)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		limit := max(512, min(int(size), dns.MaxUDP))
		got.Compress = true
		if !got.Truncated || got.Len() > limit || len(got.Answer) == 0 || (got.IsEdns0() != nil) != (size > 0) {
			t.Errorf("size %d: truncated = %t, %d bytes, %d answers, EDNS %v", size, got.Truncated, got.Len(), len(got.Answer), got.IsEdns0())
		}
	}
	got, err := n.ask(question{name: "large.service.nomad", kind: miekg.TypeSRV, tcp: true})
	if err != nil || got.Truncated || len(got.Answer) != 100 || len(got.Extra) != 100 {
		t.Errorf("by TCP: %v, %d answers", err, len(got.Answer))
	}
}

// What an allocation may ask for depends on its namespace.
func TestPeers(t *testing.T) {
	n := start(t, nil)
	for _, c := range []struct{ from, name, want string }{
		{"127.0.0.5", "web.service.nomad", "198.51.100.1"},
		{"127.0.0.5", "web.service.team.ns.nomad", "198.51.100.1"},
		{"127.0.0.5", "web.service.default.ns.nomad", "REFUSED"},
		{"127.0.0.5", "web.service.secret.ns.nomad", "REFUSED"},
		{"127.0.0.5", "none.service.secret.ns.nomad", "REFUSED"},
		{"127.0.0.5", "db.service.shared.ns.nomad", "198.51.100.2"},
		{"127.0.0.6", "web.service.team.ns.nomad", "REFUSED"},
		{"127.0.0.6", "v2.web.service.nomad", "192.0.2.3"},
		{"127.0.0.7", "web.service.nomad", "REFUSED"},
		{"127.0.0.7", "example.com", "REFUSED"},
	} {
		for _, tcp := range []bool{false, true} {
			got, err := n.ask(question{name: c.name, kind: miekg.TypeA, from: c.from, tcp: tcp})
			if err != nil || short(got) != c.want {
				t.Errorf("%s asks for %s: %q, %v, want %q", c.from, c.name, short(got), err, c.want)
			}
		}
	}
}

// An address outside of the bridge gets nothing, so that a forged one cannot be flooded.
func TestNoAnswerElsewhere(t *testing.T) {
	n := start(t, nil)
	raw, err := new(miekg.Msg).SetQuestion("web.service.nomad.", miekg.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP("127.0.0.9")}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(n.bridge)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(raw); err != nil {
		t.Fatal(err)
	}
	// A later question of a peer is answered: the first one was handled.
	if _, err := n.ask(question{name: "web.service.nomad", kind: miekg.TypeA, from: "127.0.0.5"}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if size, err := c.Read(make([]byte, 512)); err == nil {
		t.Errorf("an answer of %d bytes", size)
	}
	if got, err := n.ask(question{name: "web.service.nomad", kind: miekg.TypeA, from: "127.0.0.9", tcp: true}); err == nil {
		t.Errorf("an answer by TCP: %v", got)
	}
}

func TestEveryNamespaceForTheHost(t *testing.T) {
	n := start(t, func(c *dns.Config) { c.HostNamespaces = []string{"*"} })
	for name, want := range map[string]string{"web.service.secret.ns.nomad": "198.51.100.3", "v2.web.service.nomad": "192.0.2.3"} {
		if got, err := n.ask(question{name: name, kind: miekg.TypeA}); err != nil || short(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, short(got), err, want)
		}
	}
}

// A storm of one peer is limited; another peer and the host are not.
func TestStorm(t *testing.T) {
	n := start(t, nil)
	c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP("127.0.0.5")}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(n.bridge)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := new(miekg.Msg).SetQuestion("web.service.nomad.", miekg.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	ended, storm := make(chan struct{}), sync.WaitGroup{}
	storm.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				c.Write(raw) //nolint:errcheck // the queue may be full
			}
		}
	})
	defer storm.Wait()
	defer close(ended)
	testpace.Until(t, "the peer is limited", func() bool {
		got, err := n.ask(question{name: "web.service.nomad", kind: miekg.TypeA, from: "127.0.0.5", tcp: true})
		return err == nil && short(got) == "REFUSED"
	})
	for _, from := range []string{"127.0.0.6", ""} {
		// The kernel drops a question while the socket is full of the others. A resolver then asks again.
		testpace.Until(t, fmt.Sprintf("an answer to %q during a storm", from), func() bool {
			got, err := n.ask(question{name: "v2.web.service.nomad", kind: miekg.TypeA, from: from})
			return err == nil && short(got) == "192.0.2.3"
		})
	}
}

// Own instances come first, then those of the datacenter, in random order.
func TestOrder(t *testing.T) {
	n := start(t, nil)
	orders := map[string]bool{}
	for range 20 {
		got, err := n.ask(question{name: "large.service.nomad", kind: miekg.TypeA, tcp: true})
		if err != nil {
			t.Fatal(err)
		}
		orders[short(got)] = true
	}
	if len(orders) < 15 {
		t.Errorf("%d orders in 20 answers", len(orders))
	}
	keys := strings.Split(slices.Collect(func(yield func(string) bool) {
		for k := range orders {
			if !yield(k) {
				return
			}
		}
	})[0], " | ")
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 100 {
		t.Errorf("%d addresses, want 100", len(keys))
	}
}

// Listeners fail softly: a second server on the same addresses runs without them.
func TestSecondServer(t *testing.T) {
	first := start(t, nil)
	addr := netip.MustParseAddrPort(first.host)
	second := dns.New(dns.Config{Domains: []string{"nomad"}, Address: addr, Catalogue: services{}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { second.Run(ctx) }) //nolint:errcheck // ends with ctx
	if got := second.Gateways(ctx); len(got) != 0 {
		t.Errorf("Gateways() = %v", got)
	}
	bound, _ := first.Listening()
	if host, bridge := second.Listening(); host != "" || bridge != "" || bound != addr.String() {
		t.Errorf("Listening() = %q and %q, want only the first, %q", host, bridge, bound)
	}
	cancel()
	wg.Wait()
}
