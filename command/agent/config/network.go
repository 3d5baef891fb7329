package config

import (
	"errors"
	"net/netip"
	"os"

	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/netfilter"
	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// defaultCNIPath is the default of cni_path. With it, CNI_PATH of the environment is used.
const defaultCNIPath = "/opt/cni/bin:/usr/libexec/cni"

// bridgeName is the name of an interface that needs no quoting.
var bridgeName = pattern.Lazy(`^[A-Za-z0-9_-]{1,15}$`)

// pluginDirs returns the directories of CNI plugins.
func (c *Client) pluginDirs() []string {
	path := c.CNIPath
	if path == defaultCNIPath {
		path = ""
	}
	return cni.PluginDirs(path, os.Getenv("CNI_PATH"))
}

// networks returns the configuration of the networks of allocations. Its directory, the check by
// plugins and the log are set by the client.
func (c *Client) networks() network.Config {
	subnet, _ := netip.ParsePrefix(c.BridgeNetworkSubnet) // checked by checkBridge
	subnet6, _ := netip.ParsePrefix(c.BridgeNetworkSubnetIPv6)
	return network.Config{Plugins: c.pluginDirs(), ConfigDir: c.CNIConfigDir,
		AllAddresses: c.BindWildcardDefaultHostNetwork && len(c.HostNetwork) == 0,
		Bridge: network.Bridge{Name: c.BridgeNetworkName, Subnet: subnet.Masked(), Subnet6: subnet6.Masked(),
			Hairpin: c.BridgeNetworkHairpinMode, Isolate: c.BridgeNetworkIsolate}}
}

func (c *Client) fingerprintNetworks() fingerprint.Networks {
	return fingerprint.Networks{PluginDirs: c.pluginDirs(), ConfigDir: c.CNIConfigDir, Bridge: c.BridgeNetworkName,
		Hairpin:   c.BridgeNetworkHairpinMode,
		Isolation: netfilter.Probe}
}

// checkBridge checks the keys of the bridge.
func (s *Settings) checkBridge() error {
	c := &s.Client
	var errs []error
	if !bridgeName().MatchString(c.BridgeNetworkName) {
		errs = append(errs, s.Fault("client.bridge_network_name", "%q is not a name of 1 to 15 letters, digits, - and _", c.BridgeNetworkName))
	}
	if p, err := netip.ParsePrefix(c.BridgeNetworkSubnet); err != nil || !p.Addr().Is4() || p.Bits() > 30 {
		errs = append(errs, s.Fault("client.bridge_network_subnet", "%q is not an IPv4 subnet such as 172.26.64.0/20", c.BridgeNetworkSubnet))
	}
	if text := c.BridgeNetworkSubnetIPv6; text != "" {
		if p, err := netip.ParsePrefix(text); err != nil || !p.Addr().Is6() || p.Addr().Is4In6() || p.Bits() > 126 {
			errs = append(errs, s.Fault("client.bridge_network_subnet_ipv6", "%q is not an IPv6 subnet such as fd00:a110:c8::/64", text))
		}
	}
	return errors.Join(errs...)
}
