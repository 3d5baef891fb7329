package taskenv_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// Ports have an address in the network namespace if the allocation has one.
func TestAllocAddresses(t *testing.T) {
	names := []string{"NOMAD_ALLOC_IP_http-in", "NOMAD_ALLOC_ADDR_http-in", "NOMAD_ALLOC_INTERFACE_http-in"}
	for _, c := range []struct {
		status *nomad.AllocNetworkStatus
		want   []string
	}{
		{nil, []string{"", "", ""}},
		{&nomad.AllocNetworkStatus{InterfaceName: "eth0", Address: "172.26.64.2", AddressIPv6: "fd00::2"},
			[]string{"172.26.64.2", "172.26.64.2:8080", "eth0"}},
		{&nomad.AllocNetworkStatus{InterfaceName: "eth0", Address: "fd00::2", AddressIPv6: "fd00::2"},
			[]string{"fd00::2", "[fd00::2]:8080", "eth0"}},
	} {
		s := subject()
		s.Network = c.status
		vars := taskenv.New(s).Build().Map()
		for i, name := range names {
			if got, set := vars[name]; got != c.want[i] || set != (c.want[i] != "") {
				t.Errorf("status %+v: %s = %q, want %q", c.status, name, got, c.want[i])
			}
		}
	}
}
