package netfilter

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

var (
	loopback4  = netip.MustParsePrefix("127.0.0.0/8")
	linkLocal6 = netip.MustParsePrefix("fe80::/10")
	unset6     = netip.MustParsePrefix("::/128")
)

// bridgeRules check the source of each frame, and block frames between ports.
func (l *layout) bridgeRules() {
	t := l.bridge
	chain := l.chain(t, "own", nil, nil)
	pre := l.chain(t, "prerouting", nftables.ChainHookPrerouting, priorityBridge)
	forward := l.chain(t, "forward", nftables.ChainHookForward, priorityBridge)
	for _, key := range []expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME} {
		l.rule(forward, portName(key), in(l.set(t, setPorts)), drop())
	}

	l.rule(pre, portName(expr.MetaKeyIIFNAME), in(l.set(t, setPorts)), jump(chain.Name))
	// Other ports, of any bridge, must not use an address of an isolated allocation.
	l.rule(pre, load(expr.PayloadBaseLLHeader, etherSource, macSize, regFirst), in(l.set(t, setMACs)), drop())
	l.rule(pre, ether(unix.ETH_P_IP), header(ip4Source, sizeOf4), in(l.set(t, setAddr+"4")), drop())
	l.rule(pre, ether(unix.ETH_P_ARP), header(arpSource, sizeOf4), in(l.set(t, setAddr+"4")), drop())
	l.rule(pre, ether(unix.ETH_P_IPV6), header(ip6Source, sizeOf6), in(l.set(t, setAddr+"6")), drop())
	target := load(expr.PayloadBaseTransportHeader, icmp6Target, sizeOf6, regFirst)
	advert := icmp6(icmp6NeighborAdvert, icmp6NeighborAdvert)
	l.rule(pre, ether(unix.ETH_P_IPV6), advert, target, in(l.set(t, setAddr+"6")), drop())

	l.ownRules(chain)
}

// ownRules accept frames of an isolated allocation from its own addresses only.
func (l *layout) ownRules(chain *nftables.Chain) {
	t := l.bridge
	v4, v6 := l.set(t, setOwn+"4"), l.set(t, setOwn+"6")
	l.rule(chain, withPort(expr.PayloadBaseLLHeader, etherSource, macSize), notIn(l.set(t, setOwnMAC)), drop())
	l.rule(chain, ether(unix.ETH_P_ARP), withPort(expr.PayloadBaseNetworkHeader, arpSource, sizeOf4), in(v4), accept())
	l.rule(chain, ether(unix.ETH_P_IP), withPort(expr.PayloadBaseNetworkHeader, ip4Source, sizeOf4), in(v4), accept())
	// An advertisement is for an address of its own, or for the link-local one.
	is6, advert := ether(unix.ETH_P_IPV6), icmp6(icmp6NeighborAdvert, icmp6NeighborAdvert)
	target := load(expr.PayloadBaseTransportHeader, icmp6Target, sizeOf6, regFirst)
	l.rule(chain, is6, advert, withPort(expr.PayloadBaseTransportHeader, icmp6Target, sizeOf6), in(v6), accept())
	l.rule(chain, is6, advert, append(target, within(0, linkLocal6)[1:]...), accept())
	l.rule(chain, is6, advert, drop())
	l.rule(chain, is6, withPort(expr.PayloadBaseNetworkHeader, ip6Source, sizeOf6), in(v6), accept())
	for _, p := range []netip.Prefix{linkLocal6, unset6} {
		// Not the type between these two: an allocation is not a router.
		l.rule(chain, is6, within(ip6Source, p), icmp6(icmp6RouterSolicit, icmp6RouterSolicit), accept())
		l.rule(chain, is6, within(ip6Source, p), icmp6(icmp6NeighborSolicit, icmp6NeighborSolicit), accept())
		l.rule(chain, is6, within(ip6Source, p), icmp6(icmp6ListenerReportV2, icmp6ListenerReportV2), accept())
	}
	l.rule(chain, drop())
}

// inetRules check packets that the node routes or receives.
func (l *layout) inetRules() {
	t, br := l.inet, l.bridgeName
	raw := l.chain(t, "prerouting", nftables.ChainHookPrerouting, priorityRaw)
	forward := l.chain(t, "forward", nftables.ChainHookForward, priorityInet)
	input := l.chain(t, "input", nftables.ChainHookInput, priorityInet)
	// The plugin for port maps enables routing to loopback addresses from the bridge.
	l.rule(raw, from(br), family(unix.NFPROTO_IPV4), within(ip4Dest, loopback4), drop())
	l.rule(raw, from(br), family(unix.NFPROTO_IPV4), within(ip4Source, loopback4), drop())

	l.rule(forward, answers(), accept())
	l.rule(input, answers(), accept())
	l.rule(input, from(br), family(unix.NFPROTO_IPV6), icmp6(icmp6RouterSolicit, icmp6RouterSolicit), accept())
	l.rule(input, from(br), family(unix.NFPROTO_IPV6), icmp6(icmp6NeighborSolicit, icmp6NeighborAdvert), accept())
	for _, f := range []struct {
		proto              byte
		suffix             string
		source, dest, size uint32
		second             uint32
	}{
		{unix.NFPROTO_IPV4, "4", ip4Source, ip4Dest, sizeOf4, regAfterShort},
		{unix.NFPROTO_IPV6, "6", ip6Source, ip6Dest, sizeOf6, regAfterName},
	} {
		is := family(f.proto)
		addr, source, dest := l.set(t, setAddr+f.suffix), header(f.source, f.size), header(f.dest, f.size)
		both := append(header(f.source, f.size), load(expr.PayloadBaseNetworkHeader, f.dest, f.size, f.second)...)
		l.rule(forward, from(br), to(br), is, both, in(l.set(t, setSelf+f.suffix)), accept())
		l.rule(forward, from(br), to(br), is, source, in(addr), reject())
		l.rule(forward, from(br), to(br), is, dest, in(addr), reject())
		l.rule(forward, notFrom(br), is, dest, in(addr), bits(expr.CtKeySTATUS, statusDNAT, expr.CmpOpEq), drop())
		l.rule(forward, from(br), is, source, follow(l.set(t, setEgress+f.suffix)))
		l.rule(input, from(br), is, source, follow(l.set(t, setEgress+f.suffix)))
	}
}

// addEgress adds the chain of an allocation's destinations.
func (l *layout) addEgress(c *nftables.Conn, a *Allocation) {
	chain := c.AddChain(&nftables.Chain{Table: l.inet, Name: chainEgress + a.ID})
	add := func(parts ...[]expr.Any) {
		var all []expr.Any
		for _, p := range parts {
			all = append(all, p...)
		}
		c.AddRule(&nftables.Rule{Table: l.inet, Chain: chain, Exprs: all})
	}
	for _, d := range a.Egress {
		var match []expr.Any
		if d.Prefix.IsValid() {
			proto, dest := byte(unix.NFPROTO_IPV4), uint32(ip4Dest)
			if d.Prefix.Addr().Is6() {
				proto, dest = unix.NFPROTO_IPV6, ip6Dest
			}
			match = append(family(proto), within(dest, d.Prefix)...)
		}
		if d.Protocol != "" {
			number := byte(unix.IPPROTO_TCP)
			if d.Protocol == "udp" {
				number = unix.IPPROTO_UDP
			}
			match = append(match, protocol(number)...)
			match = append(match, load(expr.PayloadBaseTransportHeader, portDest, 2, regFirst)...)
			match = append(match, &expr.Cmp{Op: expr.CmpOpEq, Register: regFirst, Data: binaryutil.BigEndian.PutUint16(d.Port)})
		}
		add(match, accept())
	}
	add(reject())
}
