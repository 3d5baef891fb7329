package jobs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
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
		testkernel.Kernel{}.Rerun(t, ordinary, "")
		return
	}
	dir := store(t, map[string]string{"in": "from the node\n"})
	cfg := filepath.Join(harness.TempDir(t), "volumes.hcl")
	harness.WriteFile(t, cfg, harness.VolumesConfig(dir))
	a := harness.DevAgent(t, "-config="+cfg)
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	dns := "network {\n dns {\n servers = [\"192.0.2.9\"]\n }\n}\n"
	for name, c := range map[string]struct {
		mount string
		rw    bool
	}{"writes": {"", true}, "reads": {"read_only = true", false}} {
		id, _ := harness.Run(t, a, harness.Job("rootless-"+name, `type = "batch"`, harness.Once+dns+volume("data", "")+
			unveiled("D=$NOMAD_TASK_DIR/v; "+tries+"; cat /etc/resolv.conf", mount("local/v", c.mount))))
		text := harness.Log(a, harness.Await(t, a, id, "complete", 1)[0])
		if !strings.HasPrefix(text, "from the node\n") || !strings.Contains(text, "nameserver 192.0.2.9\n") ||
			strings.Contains(text, "WROTE") != c.rw || strings.Contains(text, "APPENDED") != c.rw {
			t.Errorf("%s: the task wrote %q", name, text)
		}
		harness.WriteFile(t, filepath.Join(dir, "in"), "from the node\n")
	}
	if got := onlyNode(t, a).Attributes["network.none"]; got != "false" {
		t.Errorf("network.none = %q", got)
	}
	_, eval := harness.Run(t, a, harness.Job("rootless-none", "", "network {\n mode = \"none\"\n}\n"+unveiled("true")))
	harness.CheckBlocked(t, harness.Evaluated(t, a, eval), `missing network "none"`)
}
