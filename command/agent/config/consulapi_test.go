package config

import (
	"strings"
	"testing"
)

func TestConsulAPIFaults(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:8500":   "is not a loopback address",
		"10.0.0.1:8500":  "is not a loopback address",
		"localhost:8500": "is not an IP address with a port",
		"127.0.0.1":      "is not an IP address with a port",
		"127.0.0.1:0":    "has no port",
	} {
		text := "data_dir = \"/x\"\nclient {\n enabled = true\n consul_api {\n address = \"" + address + "\"\n }\n}\n"
		_, err := load(t, map[string]string{"a.hcl": text})
		if err == nil || !strings.Contains(err.Error(), "client.consul_api.address: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}
