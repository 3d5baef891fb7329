package fingerprint_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/nomad"
)

// aliases returns the addresses of the node's networks as "device alias address reserved".
func aliases(node *nomad.Node) (out []string) {
	for _, n := range node.NodeResources.NodeNetworks {
		for _, a := range n.Addresses {
			out = append(out, n.Device+" "+a.Alias+" "+a.Address+" "+a.ReservedPorts)
		}
	}
	return out
}

func fingerprinted(t *testing.T, networks ...fingerprint.HostNetwork) *nomad.Node {
	t.Helper()
	cfg := fingerprint.Config{AllocDir: t.TempDir(), Loopback: true, Reserved: fingerprint.Reserved{Ports: "22", Agent: []int{4646}},
		HostNetworks: networks}
	node := &nomad.Node{}
	fingerprint.NewHost("/", cfg).Run(context.Background(), quiet).Apply(cfg, node)
	return node
}

func TestHostNetworks(t *testing.T) {
	within := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	node := fingerprinted(t,
		fingerprint.HostNetwork{Name: "none", Interface: "no-such-device"},
		fingerprint.HostNetwork{Name: "private", CIDR: "127.0.0.0/8,10.0.0.0/8", Within: within, Interface: "lo", ReservedPorts: "80,8000-8010"},
		fingerprint.HostNetwork{Name: "public", Within: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}})
	got := aliases(node)
	want := []string{"lo default 127.0.0.1 22,4646", "lo private 127.0.0.1 80,8000-8010"}
	if got = slices.DeleteFunc(got, func(s string) bool { return s == "lo default ::1 22,4646" }); !slices.Equal(got, want) {
		t.Errorf("addresses = %q, want %q", got, want)
	}
	if n := node.HostNetworks["private"]; len(node.HostNetworks) != 3 || n.Name != "private" || n.CIDR != "127.0.0.0/8,10.0.0.0/8" ||
		n.Interface != "lo" || n.ReservedPorts != "80,8000-8010" {
		t.Errorf("HostNetworks = %+v", node.HostNetworks)
	}
	if node := fingerprinted(t); node.HostNetworks != nil {
		t.Errorf("HostNetworks without configuration = %+v", node.HostNetworks)
	}
}

// A host network without conditions has the addresses of all interfaces, also of those that are not the default one.
func TestHostNetworkOfAllInterfaces(t *testing.T) {
	node := fingerprinted(t, fingerprint.HostNetwork{Name: "all"})
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, ifc := range all {
		addrs, err := ifc.Addrs()
		if err != nil || len(addrs) == 0 {
			continue
		}
		n := slices.IndexFunc(node.NodeResources.NodeNetworks, func(n *nomad.NodeNetworkResource) bool { return n.Device == ifc.Name })
		if n < 0 {
			t.Errorf("no network of %s, which has the addresses %v", ifc.Name, addrs)
			continue
		}
		for _, a := range node.NodeResources.NodeNetworks[n].Addresses {
			if a.Alias != "all" && ifc.Flags&net.FlagLoopback == 0 {
				t.Errorf("address %s of %s is in the network %q", a.Address, ifc.Name, a.Alias)
			}
		}
	}
	for _, n := range node.NodeResources.Networks {
		if n.Device != "lo" {
			t.Errorf("the default networks include %s", n.Device)
		}
	}
}
