package fingerprint

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/nomad"
)

// defaultSpeed is the link speed in Mbit/s if the kernel reports none.
const defaultSpeed = 1000

// network returns the interface for the tasks' ports and its addresses, and the addresses of host networks.
func network(h *Host) (Facts, error) {
	var f Facts
	if !netns.Possible() {
		f.set(nomad.AttrNetworkNone, "false")
	}
	ifc, err := h.defaultInterface()
	if err != nil {
		return f, err
	}
	addrs, err := h.addresses(ifc)
	if err != nil {
		return f, err
	}
	mbits := h.linkSpeed(ifc)
	for _, a := range addrs {
		f.Networks = append(f.Networks, &nomad.NetworkResource{
			Mode: "host", Device: ifc.Name, CIDR: netip.PrefixFrom(a, a.BitLen()).String(),
			IP: a.String(), MBits: mbits,
		})
	}
	if len(addrs) > 0 {
		f.set("unique.network.ip-address", addrs[0].String())
	}
	f.NodeNetworks, err = h.nodeNetworks(ifc, addrs)
	return f, err
}

// defaultInterface returns the configured interface, the loopback interface under -dev, or else
// that of the default route. Without a default route it returns the loopback interface.
func (h *Host) defaultInterface() (*net.Interface, error) {
	name := h.cfg.Interface
	if name == "" && !h.cfg.Loopback {
		name = h.routeInterface()
	}
	if name != "" {
		ifc, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("network interface %q: %w", name, err)
		}
		return ifc, nil
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	for _, ifc := range all {
		if ifc.Flags&net.FlagLoopback != 0 {
			return &ifc, nil
		}
	}
	return nil, fmt.Errorf("no default route and no loopback interface")
}

// routeInterface returns the interface of the IPv4 default route, else that of the IPv6 one, or
// "".
func (h *Host) routeInterface() string {
	if name := h.findRoute("/proc/net/route", func(w []string) string {
		if len(w) > 7 && w[1] == "00000000" && w[7] == "00000000" {
			return w[0]
		}
		return ""
	}); name != "" {
		return name
	}
	const zero = "00000000000000000000000000000000"
	return h.findRoute("/proc/net/ipv6_route", func(w []string) string {
		if len(w) > 9 && w[0] == zero && w[1] == "00" && w[9] != "lo" {
			return w[9]
		}
		return ""
	})
}

func (h *Host) findRoute(table string, match func(words []string) string) string {
	file, err := os.Open(h.path(table))
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name := match(strings.Fields(lines.Text())); name != "" {
			return name
		}
	}
	return ""
}

// addresses returns the addresses of the interface, the preferred family first. Link-local
// addresses are used only if there are no others and the configuration allows it.
func (h *Host) addresses(ifc *net.Interface) ([]netip.Addr, error) {
	raw, err := ifc.Addrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of %q: %w", ifc.Name, err)
	}
	var first, second, local []netip.Addr
	for _, r := range raw {
		p, err := netip.ParsePrefix(r.String())
		if err != nil {
			continue
		}
		a := p.Addr()
		switch preferred := a.Is6() == (h.cfg.AddressFamily == "ipv6"); {
		case a.IsLinkLocalUnicast():
			local = append(local, a)
		case preferred:
			first = append(first, a)
		default:
			second = append(second, a)
		}
	}
	if all := append(first, second...); len(all) > 0 {
		return all, nil
	}
	if h.cfg.SkipLinkLocal {
		return nil, nil
	}
	return local, nil
}

func (h *Host) linkSpeed(ifc *net.Interface) int {
	if h.cfg.SpeedMbits > 0 {
		return h.cfg.SpeedMbits
	}
	if n := h.number("/sys/class/net/" + ifc.Name + "/speed"); n > 0 {
		return int(n)
	}
	return defaultSpeed
}
