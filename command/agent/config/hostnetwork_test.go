package config

import (
	"strings"
	"testing"
)

func TestHostNetworkFaults(t *testing.T) {
	for text, want := range map[string]string{
		`host_network "a b" {}`:                                        `client.host_network.a b: "a b" is not a network name`,
		`host_network "$x" {}`:                                         `"$x" is not a network name`,
		"host_network \"a\" {\n cidr = \"10.0.0.0/8,10\" }":            `client.host_network.a.cidr: "10" is not a network`,
		"host_network \"a\" {\n cidr = \"10.0.0.0/40\" }":              "client.host_network.a.cidr",
		"host_network \"a\" {\n interface = \"{{ GetPrivateIPP }}\" }": "client.host_network.a.interface: address template",
		"host_network \"a\" {\n reserved_ports = \"80,90-70\" }":       `client.host_network.a.reserved_ports: reserved ports "80,90-70": bad range "90-70"`,
		"reserved {\n reserved_ports = \"70000\" }":                    "client.reserved.reserved_ports",
	} {
		_, err := load(t, map[string]string{"a.hcl": "data_dir = \"/var/nomad\"\nclient {\n enabled = true\n" + text + "\n}\n"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", text, err, want)
		}
	}
}
