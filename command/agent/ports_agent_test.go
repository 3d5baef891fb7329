package agent_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// Every node reserves the ports of its agent, so that no server places an allocation on them: those on which the agent
// listens, and those of its configuration.
func TestReservesOwnPorts(t *testing.T) {
	server, client := testnet.Take(t).IP(), testnet.Take(t).IP()
	srv, _ := run(t, "-server", "-client", "-bootstrap-expect", "1", "-bind", server, "-data-dir", clienttest.Dir(t), "-config",
		write(t, `ports { http = 0, rpc = 5647, serf = 5648 }`))
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(srv) == 1 })
	run(t, "-client", "-bind", client, "-data-dir", clienttest.Dir(t), "-servers", server+":5647", "-config",
		write(t, `ports { http = 6646, rpc = 6647, serf = 6648 }
client { reserved { reserved_ports = "22,9000-9010" } }`))
	testpace.Until(t, "both nodes are ready", func() bool { return readyNodes(srv) == 2 })
	var stubs []struct{ ID string }
	if err := get(srv, "/v1/nodes", &stubs); err != nil {
		t.Fatal(err)
	}
	_, api, err := net.SplitHostPort(srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("5647,5648,%s", api), "22,9000-9010,6646,6647,6648"}
	var got []string
	for _, stub := range stubs {
		var n nomad.Node
		if err := get(srv, "/v1/node/"+stub.ID, &n); err != nil {
			t.Fatal(err)
		}
		ports := n.ReservedResources.Networks.ReservedHostPorts
		for _, network := range n.NodeResources.NodeNetworks {
			for _, a := range network.Addresses {
				if a.Alias == "default" && a.ReservedPorts != ports {
					t.Errorf("reserved ports of %s = %q, of the node %q", a.Address, a.ReservedPorts, ports)
				}
			}
		}
		got = append(got, ports)
	}
	slices.Sort(got)
	slices.Sort(want)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("reserved ports of the nodes = %q, want %q", got, want)
	}
}
