package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDNS(t *testing.T) {
	args := []string{"-client", "-data-dir", "/var/nomad"}
	s, err := Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	d := s.dnsConfig()
	if !d.Enabled || d.Address.String() != "127.0.0.1:8600" || !slices.Equal(d.Domains, []string{"nomad", "consul"}) ||
		d.TTL != 5*time.Second || d.MaxStale != time.Hour || !slices.Equal(d.HostNamespaces, []string{"default"}) || len(d.Recursors) != 0 {
		t.Errorf("defaults = %+v", d)
	}
	for _, c := range []struct{ block, want string }{
		{`enabled = false`, ""},
		{`address = "[::1]:53"`, ""},
		{`address = "0.0.0.0:8600"`, "client.dns.address"},
		{`address = "127.0.0.1:0"`, "client.dns.address"},
		{`address = "localhost:8600"`, "client.dns.address"},
		{`domains = ["Consul.", "a.b"]`, ""},
		{`domains = []`, "client.dns.domains"},
		{`domains = ["a", "A"]`, "client.dns.domains"},
		{`domains = ["a_b"]`, "client.dns.domains"},
		{`ttl = "0s"`, ""},
		{`ttl = "100ms"`, "client.dns.ttl"},
		{`ttl = "48h"`, "client.dns.ttl"},
		{`max_stale = "1s"`, "client.dns.max_stale"},
		{`recursors = ["192.0.2.53", "[2001:db8::1]:53", "2001:db8::1"]`, ""},
		{`recursors = ["127.0.0.1:8600"]`, "client.dns.recursors"},
		{`recursors = ["dns.example"]`, "client.dns.recursors"},
		{`host_namespaces = ["*"]`, ""},
		{`shared_namespaces = ["*"]`, "client.dns.shared_namespaces"},
	} {
		_, err := load(t, map[string]string{"a.hcl": fmt.Sprintf("client {\n dns {\n %s\n }\n}\n", c.block)}, args...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.block, err, c.want)
		}
	}
}
