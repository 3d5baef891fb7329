package netfilter

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Sizes of keys.
const (
	nameSize = 16 // of an interface's name, with the zero at its end
	macSize  = 6
)

// Registers: the first part of a concatenation, and the second one after a part of 16 bytes, or of 4.
const (
	regFirst      = unix.NFT_REG_1
	regAfterName  = unix.NFT_REG_2
	regAfterShort = unix.NFT_REG32_01
)

// Offsets in headers.
const (
	etherSource  = 6
	arpSource    = 14 // the sender's IPv4 address
	ip4Source    = 12
	ip4Dest      = 16
	ip6Source    = 8
	ip6Dest      = 24
	icmp6Target  = 8 // the target of a neighbour advertisement
	portDest     = 2 // of TCP and UDP
	statusDNAT   = 1 << 5
	sizeOf4      = 4
	sizeOf6      = 16
	stateAllowed = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
)

// ICMPv6 types that a host sends to find its neighbours and multicast listeners.
const (
	icmp6RouterSolicit    = 133
	icmp6NeighborSolicit  = 135
	icmp6NeighborAdvert   = 136
	icmp6ListenerReportV2 = 143
)

// ifname returns the name of an interface as the kernel compares it.
func ifname(name string) []byte {
	b := make([]byte, nameSize)
	copy(b, name)
	return b
}

func drop() []expr.Any   { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }
func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

// reject drops a packet and reports it to the sender.
func reject() []expr.Any {
	return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
}

func jump(chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}
}

// meta compares a property of the packet.
func meta(key expr.MetaKey, op expr.CmpOp, value []byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: regFirst}, &expr.Cmp{Op: op, Register: regFirst, Data: value}}
}

// from and to match the interface; notFrom matches all others.
func from(name string) []expr.Any    { return meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, ifname(name)) }
func notFrom(name string) []expr.Any { return meta(expr.MetaKeyIIFNAME, expr.CmpOpNeq, ifname(name)) }
func to(name string) []expr.Any      { return meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, ifname(name)) }

// ether matches the protocol of a frame.
func ether(protocol uint16) []expr.Any {
	return meta(expr.MetaKeyPROTOCOL, expr.CmpOpEq, binaryutil.BigEndian.PutUint16(protocol))
}

// family matches packets of IPv4 or IPv6, in a table of family inet.
func family(proto byte) []expr.Any { return meta(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{proto}) }

// protocol matches the transport protocol.
func protocol(number byte) []expr.Any {
	return meta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{number})
}

// load copies bytes of a header to a register.
func load(base expr.PayloadBase, offset, size, register uint32) []expr.Any {
	return []expr.Any{&expr.Payload{OperationType: expr.PayloadLoad, Base: base, Offset: offset, Len: size, DestRegister: register}}
}

// header returns the expression for bytes of the network header, in the first register.
func header(offset, size uint32) []expr.Any {
	return load(expr.PayloadBaseNetworkHeader, offset, size, regFirst)
}

// withPort puts the name of the port before bytes of a header.
func withPort(base expr.PayloadBase, offset, size uint32) []expr.Any {
	return append([]expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: regFirst}}, load(base, offset, size, regAfterName)...)
}

// in looks the first register up in a set.
func in(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: regFirst, SetName: s.Name, SetID: s.ID}}
}

// notIn matches if the set does not have the first register.
func notIn(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: regFirst, SetName: s.Name, SetID: s.ID, Invert: true}}
}

// follow uses the verdict of the map for the first register.
func follow(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: regFirst, SetName: s.Name, SetID: s.ID, IsDestRegSet: true,
		DestRegister: unix.NFT_REG_VERDICT}}
}

// portName loads the name of the interface, of the bridge's port in a table of family bridge.
func portName(key expr.MetaKey) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: regFirst}}
}

// bits matches if a value of the connection has one of the bits, or none of them.
func bits(key expr.CtKey, mask uint32, op expr.CmpOp) []expr.Any {
	return []expr.Any{&expr.Ct{Key: key, Register: regFirst},
		&expr.Bitwise{SourceRegister: regFirst, DestRegister: regFirst, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(mask),
			Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: regFirst, Data: make([]byte, 4)}}
}

// answers matches packets of accepted connections.
func answers() []expr.Any { return bits(expr.CtKeySTATE, stateAllowed, expr.CmpOpNeq) }

// within matches bytes of the network header that are in a prefix.
func within(offset uint32, p netip.Prefix) []expr.Any {
	ip := p.Addr().AsSlice()
	mask := make([]byte, len(ip))
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return append(header(offset, uint32(len(ip))),
		&expr.Bitwise{SourceRegister: regFirst, DestRegister: regFirst, Len: uint32(len(ip)), Mask: mask, Xor: make([]byte, len(ip))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: regFirst, Data: ip})
}

// icmp6 matches ICMPv6 packets of a range of types.
func icmp6(low, high byte) []expr.Any {
	return append(append(protocol(unix.IPPROTO_ICMPV6), load(expr.PayloadBaseTransportHeader, 0, 1, regFirst)...),
		&expr.Range{Op: expr.CmpOpEq, Register: regFirst, FromData: []byte{low}, ToData: []byte{high}})
}
