package config

import (
	"net"
	"strings"
	"testing"
)

// Templates and names are resolved to addresses of this machine before listeners are bound.
func TestAddressesAreResolved(t *testing.T) {
	cases := []struct{ text, path, want string }{
		{`bind_addr = "{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"ipv4\" | attr \"address\" }}"`, "bind_addr",
			"127.0.0.1"},
		{`bind_addr = "localhost"`, "bind_addr", "127.0.0.1"},
		{`bind_addr = "[::1]"`, "bind_addr", "::1"},
		{`addresses { http = "127.0.0.1   127.0.0.2" }`, "addresses.http", "127.0.0.1 127.0.0.2"},
		{`addresses { http = "{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"ipv4\" | attr \"address\" }} 127.0.0.2" }`,
			"addresses.http", "127.0.0.1 127.0.0.2"},
		{`addresses { rpc = "{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"ipv4\" | attr \"address\" }}" }`,
			"addresses.rpc", "127.0.0.1"},
		{`advertise { http = "{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"ipv4\" | attr \"address\" }}:4711" }`,
			"advertise.http", "127.0.0.1:4711"},
		{`advertise { rpc = "srv.example.org" }`, "advertise.rpc", "srv.example.org"},
		{`client { network_interface = "{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"ipv4\" | attr \"name\" }}" }`,
			"client.network_interface", "lo"},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			s, err := load(t, map[string]string{"a.hcl": minimal + c.text})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{"bind_addr": s.BindAddr, "addresses.http": s.Addresses.HTTP, "addresses.rpc": s.Addresses.RPC,
				"advertise.http": s.Advertise.HTTP, "advertise.rpc": s.Advertise.RPC, "client.network_interface": s.Client.NetworkInterface}[c.path]
			if got != c.want {
				t.Errorf("%s = %q, want %q", c.path, got, c.want)
			}
		})
	}
}

func TestAddressFaults(t *testing.T) {
	for text, want := range map[string]string{
		`bind_addr = "{{ GetNothing }}"`:                       "a.hcl:4: bind_addr: address template",
		`bind_addr = "{{ GetInterfaceIP \"nope0\" }}"`:         "has no result on this machine",
		`bind_addr = "127.0.0.1 127.0.0.2"`:                    "expected one address, got 2",
		`addresses { http = "unix:///run/nomad.sock" }`:        "addresses.http",
		`addresses { rpc = "127.0.0.1 127.0.0.2" }`:            "addresses.rpc: expected one address",
		`advertise { http = "0.0.0.0" }`:                       "advertise.http",
		`advertise { rpc = "10.0.0.1:http" }`:                  "invalid port: use 1 to 65535",
		`advertise { rpc = "[::]:4647" }`:                      "is the unspecified address",
		`advertise { serf = "http://10.0.0.1" }`:               "advertise.serf",
		`client { network_interface = "{{ GetPrivateIPP }}" }`: "client.network_interface",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := load(t, map[string]string{"a.hcl": minimal + text})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Parse() = %v, want %q in it", err, want)
			}
		})
	}
}

// A listener on all addresses advertises one address of this machine.
func TestAdvertised(t *testing.T) {
	for _, c := range []struct{ said, bound, want string }{
		{"10.0.0.1", "0.0.0.0", "10.0.0.1:4646"}, {"10.0.0.1:1", "0.0.0.0", "10.0.0.1:1"}, {"", "127.0.0.1", "127.0.0.1:4646"},
		{"::1", "0.0.0.0", "[::1]:4646"}, {"[::1]:2", "0.0.0.0", "[::1]:2"}, {"srv", "0.0.0.0", "srv:4646"},
	} {
		if got, err := advertised(c.said, c.bound, 4646); got != c.want || err != nil {
			t.Errorf("advertised(%q, %q) = %q, %v, want %q", c.said, c.bound, got, err, c.want)
		}
	}
	got, err := advertised("", "0.0.0.0", 4646)
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(got)
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		t.Errorf("advertised() = %q, want an address of this machine", got)
	}
}
