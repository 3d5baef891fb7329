package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-sockaddr"
	"github.com/hashicorp/go-sockaddr/template"
)

// lookupLimit is the timeout for resolving a host name in the configuration.
const lookupLimit = 2 * time.Second

// resolve replaces address templates and host names in the configuration by their values on this
// machine.
func (s *Settings) resolve() error {
	var errs []error
	for _, k := range []struct {
		path  string
		value *string
		each  func(string) (string, error)
		many  bool
	}{
		{"bind_addr", &s.BindAddr, ipOf, false},
		{"addresses.http", &s.Addresses.HTTP, ipOf, true},
		{"addresses.rpc", &s.Addresses.RPC, ipOf, false},
		{"addresses.serf", &s.Addresses.Serf, ipOf, false},
		{"advertise.http", &s.Advertise.HTTP, reachable, false},
		{"advertise.rpc", &s.Advertise.RPC, reachable, false},
		{"advertise.serf", &s.Advertise.Serf, reachable, false},
		{"client.network_interface", &s.Client.NetworkInterface, asIs, false},
	} {
		s.names = append(s.names, strings.Fields(*k.value)...)
		text, err := resolved(*k.value, k.each, k.many)
		if err != nil {
			errs = append(errs, s.Fault(k.path, "%v", err))
			continue
		}
		*k.value = text
	}
	return errors.Join(append(errs, s.resolveHostNetworks())...)
}

// HostNames returns the Host names that the HTTP API accepts besides IP addresses and localhost.
// These are the names of the machine and the agent, the names in the configured addresses, and
// http_api_allowed_hosts.
func (s *Settings) HostNames() []string {
	names := append([]string{s.Name}, s.HTTPAPIAllowedHosts...)
	if host, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(host, ".")
		names = append(names, host, short)
	}
	for _, name := range s.names {
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		names = append(names, name)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// HTTPHosts returns the addresses on which the HTTP API listens.
func (s *Settings) HTTPHosts() []string { return hosts(s.Addresses.HTTP, s.BindAddr) }

// HTTPAddr returns the address that others use to reach an HTTP listener on ip and port.
func (s *Settings) HTTPAddr(ip string, port int) (string, error) {
	return advertised(s.Advertise.HTTP, ip, port)
}

// resolved evaluates the address templates in text and applies each to every word of the result.
// Without many, the result must be one word.
func resolved(text string, each func(string) (string, error), many bool) (string, error) {
	said := text
	if strings.Contains(text, "{{") {
		var err error
		if text, err = template.Parse(text); err != nil {
			return "", fmt.Errorf("address template: %w", err)
		}
	}
	words := strings.Fields(text)
	if len(words) == 0 && said != "" {
		return "", fmt.Errorf("address template %q has no result on this machine", said)
	}
	if len(words) > 1 && !many {
		return "", fmt.Errorf("expected one address, got %d (%s)", len(words), strings.Join(words, " "))
	}
	for i, w := range words {
		var err error
		if words[i], err = each(w); err != nil {
			return "", err
		}
	}
	return strings.Join(words, " "), nil
}

func asIs(word string) (string, error) { return word, nil }

// ipOf parses an IP address, or resolves a host name to one.
func ipOf(word string) (string, error) {
	if ip, err := netip.ParseAddr(strings.Trim(word, "[]")); err == nil {
		return ip.String(), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", word)
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("%q is neither an IP address nor the name of a known host", word)
	}
	for _, ip := range found {
		if ip.Unmap().Is4() {
			return ip.Unmap().String(), nil
		}
	}
	return found[0].String(), nil
}

// reachable returns an error if word is not a host or host:port that other machines can use.
func reachable(word string) (string, error) {
	host, port, err := net.SplitHostPort(word)
	if err != nil {
		host = strings.Trim(word, "[]")
	} else if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%q has an invalid port: use 1 to 65535", word)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return "", fmt.Errorf("%q is the unspecified address, which other machines cannot reach: use an address of this machine", word)
	}
	if host == "" || strings.ContainsAny(host, "/ ") {
		return "", fmt.Errorf(`%q is not an address: use host or host:port`, word)
	}
	return word, nil
}

// advertised returns the address that others use to reach a listener. It prefers the configured
// address, then the bound address, then an address of this machine.
func advertised(said, bound string, port int) (string, error) {
	if said != "" {
		return withPort(said, port), nil
	}
	ip, err := netip.ParseAddr(bound)
	if err != nil {
		return "", fmt.Errorf("advertise: %q is not an IP address", bound)
	}
	if ip.IsUnspecified() {
		if ip, err = ownAddr(); err != nil {
			return "", err
		}
	}
	return netip.AddrPortFrom(ip, uint16(port)).String(), nil
}

// hosts returns the addresses to listen on: those in list, or bind if list is empty.
func hosts(list, bind string) []string {
	if all := strings.Fields(list); len(all) > 0 {
		return all
	}
	return []string{bind}
}

// withPort adds the port if the address has none.
func withPort(addr string, port int) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), strconv.Itoa(port))
}

// ServerAddr returns the RPC address of a server. An address without a port gets the default port.
func ServerAddr(addr string) string { return withPort(strings.TrimSpace(addr), rpcPort) }

// ownAddr returns an address of this machine that others can reach. It prefers a private address
// of the interface with the default route. Without any other address it returns the loopback
// address.
func ownAddr() (netip.Addr, error) {
	if text, err := sockaddr.GetPrivateIP(); err == nil {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
			return ip, nil
		}
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("advertise: %w", err)
	}
	best, rank := netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		if r := rankOf(p.Addr()); r > rank {
			best, rank = p.Addr(), r
		}
	}
	return best, nil
}

// rankOf ranks an address by how likely others can reach it. 0 means never.
func rankOf(ip netip.Addr) int {
	switch {
	case ip.IsLoopback(), ip.IsLinkLocalUnicast():
		return 0
	case ip.Is4() && ip.IsPrivate():
		return 4
	case ip.Is4():
		return 3
	case ip.IsPrivate():
		return 2
	}
	return 1
}
