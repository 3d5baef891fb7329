package egress_test

import (
	"net/netip"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/egress"
)

func TestParseDestination(t *testing.T) {
	prefix := netip.MustParsePrefix
	for text, want := range map[string]egress.Destination{
		"10.0.0.0/8":           {Prefix: prefix("10.0.0.0/8")},
		"10.1.2.3/8":           {Prefix: prefix("10.0.0.0/8")},
		"10.1.2.3":             {Prefix: prefix("10.1.2.3/32")},
		"fd00::1":              {Prefix: prefix("fd00::1/128")},
		"tcp:443":              {Protocol: "tcp", Port: 443},
		"udp:53":               {Protocol: "udp", Port: 53},
		"10.0.0.0/8:tcp:443":   {Prefix: prefix("10.0.0.0/8"), Protocol: "tcp", Port: 443},
		"fd00::/8:udp:53":      {Prefix: prefix("fd00::/8"), Protocol: "udp", Port: 53},
		"::ffff:10.0.0.1":      {Prefix: prefix("10.0.0.1/32")},
		"0.0.0.0/0":            {Prefix: prefix("0.0.0.0/0")},
		"2001:db8::5:tcp:8080": {Prefix: prefix("2001:db8::5/128"), Protocol: "tcp", Port: 8080},
	} {
		if got, err := egress.Parse(text); err != nil || got != want {
			t.Errorf("ParseDestination(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "example.com", "10.0.0.0/33", "tcp:0", "tcp:65536", "tcp:", "icmp:1", "10.0.0.0/8:443",
		"10.0.0.0/8:tcp", ":tcp:443", "fe80::1%eth0", "10.0.0.0/8;drop", "tcp:443:tcp:443"} {
		if got, err := egress.Parse(text); err == nil {
			t.Errorf("ParseDestination(%q) = %+v, want an error", text, got)
		}
	}
}
