package client

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client/catalogue"
	"github.com/open-nomad/open-nomad/client/dns"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
)

// bridgeDNSPort is the port on the gateway: a resolv.conf has no ports.
const bridgeDNSPort = 53

// DNS configures the node's DNS server for services. The fields are explained by dns.Config and catalogue.Config.
type DNS struct {
	Enabled                          bool
	Address                          netip.AddrPort
	Domains                          []string
	TTL, MaxStale                    time.Duration
	OnlyPassing                      bool
	Recursors                        []netip.AddrPort
	HostNamespaces, SharedNamespaces []string
	Quiet                            bool
	Keeper                           dns.Keeper
}

// openDNS creates the catalogue of the node and its DNS server, unless they are disabled.
func (c *Client) openDNS() {
	d := &c.cfg.DNS
	if !d.Enabled {
		return
	}
	c.catalogue = catalogue.New(catalogue.Config{Servers: c.calls, MaxStale: d.MaxStale, Log: c.log})
	c.dns = dns.New(dns.Config{
		Domains: d.Domains, Address: d.Address, Gateways: c.gateways(), Subnets: c.bridgeSubnets(), TTL: d.TTL, OnlyPassing: d.OnlyPassing,
		Recursors: d.Recursors, HostNamespaces: d.HostNamespaces, SharedNamespaces: d.SharedNamespaces, Quiet: d.Quiet,
		Peer: func(a netip.Addr) (string, bool) { return c.networks.Peer(a) }, Ready: c.restored,
		NodeID: c.id.ID, Datacenter: c.cfg.Datacenter, Catalogue: c.catalogue, Keeper: d.Keeper, Changed: c.publishDNS, Log: c.log,
	})
}

// gateways returns the addresses of the node on its bridge, none if it cannot have one. As for the CNI plugin
// host-local, they are the first ones of the subnets.
func (c *Client) gateways() []netip.AddrPort {
	if !netns.Possible() {
		return nil
	}
	var all []netip.AddrPort
	for _, p := range c.bridgeSubnets() {
		all = append(all, netip.AddrPortFrom(p.Addr().Next(), bridgeDNSPort))
	}
	return all
}

// bridgeSubnets returns the subnets of the bridge.
func (c *Client) bridgeSubnets() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range []netip.Prefix{c.cfg.Networks.Bridge.Subnet, c.cfg.Networks.Bridge.Subnet6} {
		if p.IsValid() {
			all = append(all, p.Masked())
		}
	}
	return all
}

// publishDNS puts the listeners of the DNS server into the attributes of the node.
func (c *Client) publishDNS() {
	host, bridge := c.dns.Listening()
	c.node.update(func(n *nomad.Node) {
		for name, value := range map[string]string{nomad.AttrDNSAddress: host, nomad.AttrDNSBridgeAddress: bridge,
			nomad.AttrDNSDomains: strings.Join(c.cfg.DNS.Domains, ",")} {
			if value == "" || host+bridge == "" {
				delete(n.Attributes, name)
			} else {
				n.Attributes[name] = value
			}
		}
	})
	c.node.changed.Send()
}

// runDNS serves DNS until ctx ends.
func (c *Client) runDNS(ctx context.Context) error {
	if c.dns != nil {
		return c.dns.Run(ctx)
	}
	if k := c.cfg.DNS.Keeper; k != nil {
		k.KeepSockets(ctx, nil) // closes those of the previous agent
	}
	return nil
}

// runCatalogue keeps the catalogue of the node fresh until ctx ends.
func (c *Client) runCatalogue(ctx context.Context) error {
	if c.catalogue == nil {
		return nil
	}
	return c.catalogue.Run(ctx)
}

// taskDNS returns the DNS server for groups on the bridge, nil for none.
func (c *Client) taskDNS() taskhook.DNS {
	if c.dns == nil {
		return nil
	}
	return c.dns
}
