package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
)

// An agent of an ordinary user mounts volumes and places files in the user namespaces of its tasks.
// It does not support network namespaces, and reports that before placement.
func TestRootlessVolumes(t *testing.T) {
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	if os.Geteuid() == 0 {
		testkernel.Kernel{}.Again(t, ordinary, "")
		return
	}
	dir := store(t, map[string]string{"in": "from the node\n"})
	cfg := filepath.Join(tempDir(t), "volumes.hcl")
	write(t, cfg, volumes(dir))
	a := devAgent(t, "-config="+cfg)
	t.Cleanup(func() { purgeAll(t, a) })
	dns := "network {\n dns {\n servers = [\"192.0.2.9\"]\n }\n}\n"
	for name, c := range map[string]struct {
		mount string
		rw    bool
	}{"writes": {"", true}, "reads": {"read_only = true", false}} {
		id, _ := run(t, a, job("rootless-"+name, `type = "batch"`, once+dns+volume("data", "")+
			unveiled("D=$NOMAD_TASK_DIR/v; "+tries+"; cat /etc/resolv.conf", mount("local/v", c.mount))))
		text := log(a, await(t, a, id, "complete", 1)[0])
		if !strings.HasPrefix(text, "from the node\n") || !strings.Contains(text, "nameserver 192.0.2.9\n") ||
			strings.Contains(text, "WROTE") != c.rw || strings.Contains(text, "APPENDED") != c.rw {
			t.Errorf("%s: the task wrote %q", name, text)
		}
		write(t, filepath.Join(dir, "in"), "from the node\n")
	}
	if got := onlyNode(t, a).Attributes["network.none"]; got != "false" {
		t.Errorf("network.none = %q", got)
	}
	_, eval := run(t, a, job("rootless-none", "", "network {\n mode = \"none\"\n}\n"+unveiled("true")))
	checkBlocked(t, evaluated(t, a, eval), `missing network "none"`)
}
