package network_test

import (
	"net"
	"os/exec"
	"testing"

	"github.com/open-nomad/open-nomad/client/netns"
)

// The interface lo is up, as the plugin loopback would set it, also if the namespace came without it.
func TestLoopbackUp(t *testing.T) {
	n := newNode(t)
	r := request(allocID, n.space(allocID))
	up := func() bool {
		t.Helper()
		var up bool
		err := netns.Inside(r.Path, func() error {
			lo, err := net.InterfaceByName("lo")
			if err == nil {
				up = lo.Flags&net.FlagUp != 0
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return up
	}
	for range 2 { // for a new network, and for that of an earlier agent
		if out, err := exec.Command("nsenter", "--net="+r.Path, "ip", "link", "set", "lo", "down").CombinedOutput(); err != nil || up() {
			t.Fatalf("set lo down: %v: %s", err, out)
		}
		n.connect(r)
		if !up() {
			t.Error("lo is down in a connected namespace")
		}
		n.restart()
	}
}
