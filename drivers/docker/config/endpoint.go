package config

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Endpoint is what a task asks for about its place in a network of the daemon.
type Endpoint struct {
	Aliases       []string
	IPv4, IPv6    netip.Addr // not valid: the daemon chooses
	MAC           net.HardwareAddr
	AdvertiseIPv6 bool
}

// modesWithoutName are the network modes that are not the name of a network.
var modesWithoutName = []string{"", "host", "none", "default", "bridge"}

// maxAliases limits the aliases of a container.
const maxAliases = 64

var (
	networkName = pattern.Lazy(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)
	aliasName   = pattern.Lazy(`^[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?$`)
)

// Joins returns the name of the network of the daemon that the task joins, "" for none.
func (o *Task) Joins() string {
	if slices.Contains(modesWithoutName, o.NetworkMode) {
		return ""
	}
	return o.NetworkMode
}

// Names returns the names under which other containers of the network find the task. Some versions of the daemon add the
// host name.
func (o *Task) Names() []string {
	if o.Joins() == "" || o.Hostname == "" {
		return o.Endpoint.Aliases
	}
	return append(slices.Clone(o.Endpoint.Aliases), o.Hostname)
}

// readEndpoint reads the options of an endpoint.
func readEndpoint(f *drivers.Fields) Endpoint {
	e := Endpoint{Aliases: f.Strings("network_aliases"), AdvertiseIPv6: f.Bool("advertise_ipv6_address")}
	e.IPv4 = readAddr(f, "ipv4_address", netip.Addr.Is4)
	e.IPv6 = readAddr(f, "ipv6_address", func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() && a.Zone() == "" })
	if text := f.String("mac_address"); text != "" {
		mac, err := net.ParseMAC(text)
		if err == nil && (len(mac) != 6 || mac[0]&1 != 0 || bytes.Equal(mac, make([]byte, 6))) {
			err = errors.New("it is not the address of one interface of Ethernet")
		}
		if err != nil {
			f.Fail("mac_address", fmt.Errorf("failed to parse mac_address %q: %w", text, err))
		}
		e.MAC = mac
	}
	return e
}

// readAddr reads an IP address of a family.
func readAddr(f *drivers.Fields, name string, family func(netip.Addr) bool) netip.Addr {
	text := f.String(name)
	if text == "" {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || !family(addr) {
		f.Fail(name, fmt.Errorf("failed to parse %s %q", name, text))
	}
	return addr
}

// checkNetwork checks the network mode. The modes of the daemon have one spelling.
func (o *Task) checkNetwork() error {
	named := o.Joins()
	switch {
	case strings.HasPrefix(named, ContainerMode):
		return fmt.Errorf("not served: network_mode %q: tasks cannot join the network of another container", named)
	case named != "" && (!networkName().MatchString(named) || slices.ContainsFunc(modesWithoutName, func(mode string) bool {
		return strings.EqualFold(mode, named)
	})):
		return fmt.Errorf("network_mode %q is neither host, none, bridge, default nor the name of a network", named)
	}
	return o.checkEndpoint()
}

// checkEndpoint refuses what the network of the task cannot have.
func (o *Task) checkEndpoint() error {
	e, named := &o.Endpoint, o.Joins() != ""
	for name, given := range map[string]bool{"network_aliases": len(e.Aliases) > 0, "ipv4_address": e.IPv4.IsValid(),
		"ipv6_address": e.IPv6.IsValid()} {
		if given && !named && !o.laterMode {
			return fmt.Errorf("%s needs a network_mode with the name of a network of the daemon", name)
		}
	}
	if e.MAC != nil && (o.NetworkMode == "host" || o.NetworkMode == "none") {
		return fmt.Errorf("mac_address needs a network of the task's own, but network_mode is %q", o.NetworkMode)
	}
	if len(e.Aliases) > maxAliases {
		return fmt.Errorf("network_aliases has %d names: at most %d are possible", len(e.Aliases), maxAliases)
	}
	for _, name := range o.Names() {
		if !aliasName().MatchString(name) {
			return fmt.Errorf("%q cannot be a name in network %q: use letters, digits, - and _, at most 63, without a period", name, o.NetworkMode)
		}
	}
	return nil
}

// AllowNetwork refuses a network of the daemon that the plugin block does not allow. By default, networks on a bridge of
// the daemon or of its cluster are allowed. Those of other drivers, such as macvlan, can be parts of the node's own
// network: allow_networks has to name them.
func (s *Plugin) AllowNetwork(name, driver string) error {
	switch {
	case driver == "host" || driver == "null":
		return fmt.Errorf("network %q is not one that containers can share: use network_mode host or none", name)
	case s.networks == nil && driver != "bridge" && driver != "overlay":
		return fmt.Errorf("network %q has the driver %q: the plugin config of the driver must name it in allow_networks", name, driver)
	case s.networks != nil && !matchesAny(s.networks, name):
		return fmt.Errorf("network %q is not in allow_networks of the plugin config of the driver", name)
	}
	return nil
}
