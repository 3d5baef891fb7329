package dialguard

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCheckAddr(t *testing.T) {
	for addr, want := range map[string]string{
		"169.254.169.254": "link-local", "169.254.0.1": "link-local", "169.254.170.2": "link-local", "0.0.0.0": "unspecified",
		"0.1.2.3":         "unspecified",
		"100.100.100.200": "metadata", "168.63.129.16": "metadata", "192.0.0.192": "metadata", "224.0.0.1": "multicast",
		"239.1.1.1": "multicast", "255.255.255.255": "broadcast",
		"::": "unspecified", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "febf::1": "link-local", "ff02::1": "multicast",
		"fd00:ec2::254": "metadata", "fd20:ce::254": "metadata", "fd00:42::42": "metadata", "fd00:c1::a9fe:a9fe": "metadata",
		"::ffff:169.254.169.254": "link-local", "::ffff:0.0.0.0": "unspecified", "::ffff:100.100.100.200": "metadata",
		"::169.254.169.254":        "link-local",
		"64:ff9b::169.254.169.254": "link-local", "64:ff9b:1::169.254.169.254": "link-local", "2002:a9fe:a9fe::1": "link-local",
	} {
		err := CheckAddr(netip.MustParseAddr(addr))
		if err == nil || !strings.Contains(err.Error(), " refused: "+want) {
			t.Errorf("CheckAddr(%s) = %v, want %s", addr, err, want)
		}
		if err := CheckHost("[" + addr + "]"); err == nil {
			t.Errorf("CheckHost([%s]) = nil", addr)
		}
	}
	for _, addr := range []string{
		"127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "8.8.8.8", "100.64.0.1", "::1", "2001:db8::1", "fd00::1", "fc00::1",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:0808:0808::1",
		"169.253.255.255", "169.255.0.0", "1.0.0.0", "fec0::1",
	} {
		if err := CheckAddr(netip.MustParseAddr(addr)); err != nil {
			t.Errorf("CheckAddr(%s) = %v", addr, err)
		}
	}
	if err := CheckHost("example.com"); err != nil {
		t.Errorf("CheckHost() of a name = %v", err)
	}
}
