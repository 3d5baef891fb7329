package network_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

const otherID = "7d1f0c52-3c7b-4e2b-8a57-91f3f0a7c602"

// TestChosenAddresses checks that a job cannot take the hardware address or an IP address of another allocation on the
// bridge, whose packets it would receive.
func TestChosenAddresses(t *testing.T) {
	testpace.Slow(t, "makes many networks with CNI plugins")
	n := newNode(t)
	n.connect(request(allocID, n.space(allocID)))
	path := n.space(otherID)
	for key, value := range map[string]string{"MAC": "02:00:00:00:00:07", "IP": "172.26.64.77", "GATEWAY": "172.26.64.78"} {
		r := request(otherID, path)
		r.Alloc.AllocatedResources = nil // its port is in use
		r.Network.Isolate = true
		r.Network.CNI = &nomad.CNIConfig{Args: map[string]string{key: value}}
		status, err := n.set.Connect(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: Connect() = %+v, %v", key, status, err)
		}
		if err := n.set.Disconnect(t.Context(), otherID); err != nil {
			t.Fatal(err)
		}
	}
	r := request(otherID, path)
	r.Alloc.AllocatedResources = nil
	r.Network.CNI = &nomad.CNIConfig{Args: map[string]string{"color": "red", "IgnoreUnknown": "false"}}
	n.connect(r)
	if addrs, err := netns.Addresses(path, "eth0"); err != nil || len(addrs) == 0 {
		t.Errorf("addresses = %v, %v", addrs, err)
	}
}
