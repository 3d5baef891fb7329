package testdocker

import (
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testnet"
)

// bridges counts the bridges of this process.
var bridges atomic.Uint32

// StartBridged is Start for a daemon with a default network: a bridge in the network namespace of the test,
// which testnet.Private must have made. Published ports are forwarded by a process of the daemon.
func StartBridged(t testing.TB) *Daemon {
	t.Helper()
	if !testnet.IsPrivate() {
		skip(t, "needs root: a bridge in a network namespace")
	}
	n := bridges.Add(1)
	name := fmt.Sprintf("testdocker%d", n)
	for _, args := range [][]string{
		{"link", "add", name, "type", "bridge"},
		{"addr", "add", fmt.Sprintf("198.18.%d.1/24", n%256), "dev", name},
		{"link", "set", name, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			skip(t, fmt.Sprintf("needs a bridge: ip %v: %v: %s", args, err, out))
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "del", name).CombinedOutput(); err != nil {
			t.Errorf("remove the bridge %s: %v: %s", name, err, out)
		}
	})
	return start(t, name)
}
