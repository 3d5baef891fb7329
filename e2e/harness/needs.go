package harness

import (
	"fmt"
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/internal/landlock"
)

// NeedsRoot skips a test that needs root.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// NeedsSandbox skips where a part of the exec2 sandbox is missing.
func NeedsSandbox(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: uids and control groups")
	}
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
}

// VolumesConfig returns a client block that offers the directory as data, as the data of the second
// allocation, and read-only as docs.
func VolumesConfig(dir string) string {
	return fmt.Sprintf("client {\n host_volume \"data\" {\n path = %[1]q\n }\n host_volume \"data[1]\" {\n path = %[1]q\n }\n"+
		" host_volume \"docs\" {\n path = %[1]q\n read_only = true\n }\n}\n", dir)
}
