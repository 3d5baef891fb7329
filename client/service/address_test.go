package service_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// network has a group port "http", a task port "admin", a driver network and a network status.
func network() *service.Network {
	return &service.Network{
		Ports: nomad.AllocatedPorts{{Label: "http", Value: 23000, To: 8080, HostIP: "10.0.0.1"},
			{Label: "same", Value: 23001, HostIP: "10.0.0.1"}},
		Networks: nomad.Networks{{IP: "10.0.0.2", ReservedPorts: []nomad.Port{{Label: "admin", Value: 99}},
			DynamicPorts: []nomad.Port{{Label: "debug", Value: 23005}}}},
		Driver: &drivers.TaskNetwork{IP: "172.17.0.2", PortMap: map[string]int{"mapped": 6379}},
		Status: &nomad.AllocNetworkStatus{Address: "172.26.0.5", AddressIPv6: "fd00::5"},
	}
}

// TestResolve has a case for each row of compat/services-network.md, section 2, "Address resolution".
func TestResolve(t *testing.T) {
	advertised := func(n *service.Network) { n.Driver.AutoAdvertise = true }
	for _, tc := range []struct {
		name string
		ask  service.Ask
		edit func(*service.Network)
		host string
		port int
		err  string
	}{
		{name: "auto, address", ask: service.Ask{Mode: "auto", Address: "example.com"}, host: "example.com"},
		{name: "auto, address and label", ask: service.Ask{Mode: "auto", Address: "example.com", Port: "http"}, host: "example.com", port: 23000},
		{name: "auto, address and number", ask: service.Ask{Mode: "auto", Address: "example.com", Port: "443"}, host: "example.com", port: 443},
		{name: "auto, address and other text", ask: service.Ask{Mode: "auto", Address: "example.com", Port: "x"},
			err: `invalid port: "x": not a valid port mapping or numeric port`},
		{name: "auto, advertised by the driver", ask: service.Ask{Mode: "auto", Port: "mapped"}, edit: advertised, host: "172.17.0.2",
			port: 6379},
		{name: "auto as host", ask: service.Ask{Mode: "auto", Port: "http"}, host: "10.0.0.1", port: 23000},
		{name: "no mode is auto", ask: service.Ask{Port: "http"}, host: "10.0.0.1", port: 23000},
		{name: "host, no port", ask: service.Ask{Mode: "host"}, host: "10.0.0.2"},
		{name: "host, no port, two networks", ask: service.Ask{Mode: "host"},
			edit: func(n *service.Network) { n.Networks = append(n.Networks, n.Networks[0]) }},
		{name: "host, no port, no network", ask: service.Ask{Mode: "host"}, edit: func(n *service.Network) { n.Networks = nil }},
		{name: "host, label of the group", ask: service.Ask{Mode: "host", Port: "http"}, host: "10.0.0.1", port: 23000},
		{name: "host, static label of the task", ask: service.Ask{Mode: "host", Port: "admin"}, host: "10.0.0.2", port: 99},
		{name: "host, dynamic label of the task", ask: service.Ask{Mode: "host", Port: "debug"}, host: "10.0.0.2", port: 23005},
		{name: "host, number", ask: service.Ask{Mode: "host", Port: "8080"}, port: 8080},
		{name: "host, zero", ask: service.Ask{Mode: "host", Port: "0"}, err: "invalid port"},
		{name: "host, unknown label", ask: service.Ask{Mode: "host", Port: "nope"}, err: `invalid port: "nope"`},
		{name: "driver, none", ask: service.Ask{Mode: "driver", Port: "http"}, edit: func(n *service.Network) { n.Driver = nil },
			err: "no network"},
		{name: "driver, no port", ask: service.Ask{Mode: "driver"}, host: "172.17.0.2"},
		{name: "driver, label of the group", ask: service.Ask{Mode: "driver", Port: "http"}, host: "172.17.0.2", port: 8080},
		{name: "driver, mapped label", ask: service.Ask{Mode: "driver", Port: "mapped"}, host: "172.17.0.2", port: 6379},
		{name: "driver, number", ask: service.Ask{Mode: "driver", Port: "80"}, host: "172.17.0.2", port: 80},
		{name: "driver, unknown label", ask: service.Ask{Mode: "driver", Port: "nope"}, err: "invalid port"},
		{name: "alloc, no status", ask: service.Ask{Mode: "alloc", Port: "http"}, edit: func(n *service.Network) { n.Status = nil },
			err: "no network address"},
		{name: "alloc, empty status", ask: service.Ask{Mode: "alloc", Port: "http"},
			edit: func(n *service.Network) { n.Status = &nomad.AllocNetworkStatus{} }, err: "no network address"},
		{name: "alloc, no port", ask: service.Ask{Mode: "alloc"}, host: "172.26.0.5"},
		{name: "alloc, label with to", ask: service.Ask{Mode: "alloc", Port: "http"}, host: "172.26.0.5", port: 8080},
		{name: "alloc, label without to", ask: service.Ask{Mode: "alloc", Port: "same"}, host: "172.26.0.5", port: 23001},
		{name: "alloc, number", ask: service.Ask{Mode: "alloc", Port: "9"}, host: "172.26.0.5", port: 9},
		{name: "alloc_ipv6, label", ask: service.Ask{Mode: "alloc_ipv6", Port: "http"}, host: "fd00::5", port: 8080},
		{name: "alloc_ipv6, none", ask: service.Ask{Mode: "alloc_ipv6"}, edit: func(n *service.Network) { n.Status.AddressIPv6 = "" },
			err: "no network address"},
		{name: "unknown mode", ask: service.Ask{Mode: "moon"}, err: "unknown address_mode"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := network()
			if tc.edit != nil {
				tc.edit(n)
			}
			got, err := n.Resolve(tc.ask)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || got.Host != tc.host || got.Port != tc.port {
				t.Errorf("Resolve() = %v, %v, want %q, %d", got, err, tc.host, tc.port)
			}
		})
	}
}
