package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/catalogue"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// DNS is the client.dns block.
type DNS struct {
	Enabled          bool          `hcl:"enabled" default:"true"`
	Address          string        `hcl:"address" default:"127.0.0.1:8600"`
	Domains          []string      `hcl:"domains" default:"nomad,consul"`
	TTL              time.Duration `hcl:"ttl" default:"5s"`
	MaxStale         time.Duration `hcl:"max_stale" default:"1h"`
	OnlyPassing      bool          `hcl:"only_passing"`
	Recursors        []string      `hcl:"recursors"`
	HostNamespaces   []string      `hcl:"host_namespaces" default:"default"`
	SharedNamespaces []string      `hcl:"shared_namespaces"`
}

// Limits of the keys.
const (
	maxDNSTTL    = 24 * time.Hour
	maxDNSList   = 32
	recursorPort = 53
)

var (
	dnsDomain    = pattern.Lazy(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	dnsNamespace = pattern.Lazy(`^[a-zA-Z0-9-]{1,128}$`)
)

// checkDNS checks the client.dns block.
func (s *Settings) checkDNS() error {
	const at = "client.dns."
	d := &s.Client.DNS
	var errs []error
	addr, err := netip.ParseAddrPort(d.Address)
	if err != nil || !addr.Addr().IsLoopback() || addr.Port() == 0 {
		errs = append(errs, s.Fault(at+"address", "%q is not a loopback address with a port, such as 127.0.0.1:8600", d.Address))
	}
	if len(d.Domains) == 0 || len(d.Domains) > maxDNSList {
		errs = append(errs, s.Fault(at+"domains", "must have between 1 and %d entries", maxDNSList))
	}
	for i, domain := range d.domains() {
		if len(domain) > 128 || !dnsDomain().MatchString(domain) || slices.Contains(d.domains()[:i], domain) {
			errs = append(errs, s.Fault(at+"domains", "%q is not a domain such as consul, or is in the list twice", d.Domains[i]))
		}
	}
	if d.TTL < 0 || d.TTL > maxDNSTTL || d.TTL%time.Second != 0 {
		errs = append(errs, s.Fault(at+"ttl", "%s is not a number of seconds between 0s and %s", d.TTL, maxDNSTTL))
	}
	if d.MaxStale < catalogue.MinMaxStale {
		errs = append(errs, s.Fault(at+"max_stale", "must be at least %s", catalogue.MinMaxStale))
	}
	for _, text := range d.Recursors {
		if r, err := recursor(text); err != nil || r == addr || !r.Addr().IsValid() || r.Addr().IsUnspecified() {
			errs = append(errs, s.Fault(at+"recursors", "%q is not the address of another DNS server, such as 192.0.2.53 or 192.0.2.53:5353", text))
		}
	}
	for key, list := range map[string][]string{"host_namespaces": d.HostNamespaces, "shared_namespaces": d.SharedNamespaces} {
		for _, name := range list {
			if !dnsNamespace().MatchString(name) && (name != "*" || key != "host_namespaces") {
				errs = append(errs, s.Fault(at+key, "%q is not the name of a namespace", name))
			}
		}
	}
	if len(d.Recursors) > maxDNSList || len(d.HostNamespaces) > maxDNSList || len(d.SharedNamespaces) > maxDNSList {
		errs = append(errs, s.Fault(at+"recursors", "the lists of the block must have %d entries at most", maxDNSList))
	}
	return errors.Join(errs...)
}

// domains returns the domains in the form of the server.
func (d *DNS) domains() []string {
	var out []string
	for _, domain := range d.Domains {
		out = append(out, strings.ToLower(strings.TrimSuffix(domain, ".")))
	}
	return out
}

// recursor parses an address with or without a port.
func recursor(text string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(addr, recursorPort), nil
	}
	return netip.ParseAddrPort(text)
}

// dnsConfig returns the configuration of the node's DNS server. checkDNS has checked it.
func (s *Settings) dnsConfig() client.DNS {
	d := &s.Client.DNS
	out := client.DNS{Enabled: d.Enabled && s.Client.NomadServiceDiscovery, Domains: d.domains(), TTL: d.TTL, MaxStale: d.MaxStale,
		OnlyPassing: d.OnlyPassing, HostNamespaces: d.HostNamespaces, SharedNamespaces: d.SharedNamespaces, Quiet: s.Dev}
	out.Address, _ = netip.ParseAddrPort(d.Address)
	for _, text := range d.Recursors {
		if r, err := recursor(text); err == nil {
			out.Recursors = append(out.Recursors, r)
		}
	}
	return out
}
