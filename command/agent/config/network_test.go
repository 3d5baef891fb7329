package config

import (
	"strings"
	"testing"
)

func TestBridgeKeys(t *testing.T) {
	for text, want := range map[string]string{
		`bridge_network_name = "a/b"`:                        "client.bridge_network_name",
		`bridge_network_name = "sixteen-letters-"`:           "client.bridge_network_name",
		`bridge_network_subnet = "fd00::/64"`:                "is not an IPv4 subnet",
		`bridge_network_subnet = "10.0.0.0/31"`:              "is not an IPv4 subnet",
		`bridge_network_subnet_ipv6 = "10.0.0.0/8"`:          "is not an IPv6 subnet",
		`bridge_network_subnet_ipv6 = "::ffff:10.0.0.0/100"`: "is not an IPv6 subnet",
		`bridge_network_subnet_ipv6 = "fd00:a110:c8::/64"`:   "",
	} {
		s, err := load(t, map[string]string{"nomad.hcl": "data_dir = \"/var/lib/x\"\nclient {\n enabled = true\n " + text + "\n}\n"})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			} else if b := s.Client.networks().Bridge; b.Name != "nomad" || b.Subnet.String() != "172.26.64.0/20" ||
				b.Subnet6.String() != "fd00:a110:c8::/64" {
				t.Errorf("%s: %+v", text, b)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
