// Package dialguard refuses connections that a job makes the agent, or a program of it, open to the machine or to the
// cloud below it. The metadata service of a cloud, for example, gives the credentials of the node to anyone who can
// connect. Loopback and private addresses are not refused.
package dialguard

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// refused lists the addresses that are refused. They belong to the machine or to the cloud
// below it, and answer to anyone who can connect. An answer may be a secret of the node.
var refused = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified address"}, // RFC 6890
	{netip.MustParsePrefix("169.254.0.0/16"),
		"link-local address"}, // RFC 3927; the metadata services of AWS, Azure, Google, OpenStack and others
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata service"},     // Alibaba Cloud: ECS user guide, instance metadata
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata service"},       // Azure: "What is IP address 168.63.129.16?"
	{netip.MustParsePrefix("192.0.0.192/32"), "metadata service"},         // Oracle Cloud Classic: instance metadata
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast address"},           // RFC 5771
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast address"},    // RFC 919
	{netip.MustParsePrefix("::/128"), "unspecified address"},              // RFC 4291
	{netip.MustParsePrefix("fe80::/10"), "link-local address"},            // RFC 4291
	{netip.MustParsePrefix("ff00::/8"), "multicast address"},              // RFC 4291
	{netip.MustParsePrefix("fd00:ec2::/32"), "metadata service"},          // AWS: instance metadata at fd00:ec2::254, and other local services
	{netip.MustParsePrefix("fd20:ce::254/128"), "metadata service"},       // Google Cloud: metadata server of IPv6 instances
	{netip.MustParsePrefix("fd00:42::42/128"), "metadata service"},        // Scaleway: instance metadata
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), "metadata service"}, // Oracle Cloud: instance metadata over IPv6
}

// embedding lists the IPv6 prefixes whose addresses lead to an IPv4 address, and the byte where it starts.
var embedding = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},          // IPv4-compatible, RFC 4291
	{netip.MustParsePrefix("64:ff9b::/96"), 12},   // NAT64, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // local NAT64, RFC 8215, with the usual length of 96
	{netip.MustParsePrefix("2002::/16"), 2},       // 6to4, RFC 3056
}

// Refused is the error for an address that is refused. What describes it, as in "metadata service".
type Refused struct {
	Addr netip.Addr
	What string
}

// Error names the address.
func (e *Refused) Error() string {
	return fmt.Sprintf("connection to %s refused: %s", e.Addr, e.What)
}

// CheckAddr returns a *Refused if the address is refused.
func CheckAddr(addr netip.Addr) error {
	plain := addr.Unmap().WithZone("")
	for _, e := range embedding {
		if plain.Is6() && e.prefix.Contains(plain) && !plain.IsLoopback() && !plain.IsUnspecified() {
			bytes := plain.As16()
			plain = netip.AddrFrom4([4]byte(bytes[e.at : e.at+4]))
		}
	}
	for _, r := range refused {
		if r.prefix.Contains(plain) {
			return &Refused{addr, r.what}
		}
	}
	return nil
}

// CheckHost returns an error if the host is an address that is refused. Names are checked when they are resolved, by
// Control.
func CheckHost(host string) error {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return CheckAddr(addr)
	}
	return nil
}

// Control is a function for net.Dialer. It refuses a connection after its name is resolved.
func Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connection to %q refused: not an address", address)
	}
	return CheckAddr(to.Addr())
}
