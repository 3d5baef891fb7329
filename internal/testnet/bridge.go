package testnet

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/pkg/invoke"
)

// NeedBridge returns the directory of the CNI plugins, for tests that connect allocations with the bridge. dirs are the
// directories to search. NeedBridge calls Missing unless the process is root, and has the plugins, iptables and the
// programs.
func NeedBridge(t testing.TB, dirs []string, programs ...string) string {
	t.Helper()
	if !IsPrivate() {
		Missing(t, "needs root")
	}
	portmap, err := invoke.FindInPath("portmap", dirs)
	if err != nil {
		Missing(t, "needs the package containernetworking-plugins: "+err.Error())
	}
	for _, name := range append([]string{"iptables"}, programs...) {
		if _, err := exec.LookPath(name); err != nil {
			Missing(t, "needs the program "+name)
		}
	}
	return filepath.Dir(portmap)
}
