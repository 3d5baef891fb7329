package exec2_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestUnprivilegedLimits checks an agent without root in a delegated control group. The group needs
// version 2 with its controllers, which a virtual machine has.
func TestUnprivilegedLimits(t *testing.T) {
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	if os.Geteuid() == 0 {
		testkernel.Kernel{}.Rerun(t, nobodyUID, delegate(t))
		return
	}
	f := fixtureAt(t, settings{"allow_unprivileged": cty.True})
	if got, lacks := level(t, f.Driver); got != "restricted" || lacks != "user (a user that only this task has)" {
		t.Errorf("level = %s, lacks %q, want restricted for want of a uid per task", got, lacks)
	}
	cfg := sh(f, "cat /proc/self/cgroup; n=0; while [ $n -lt 40 ]; do sleep 1000 & n=$((n+1)); done; echo all")
	block := cfg.Config.AsValueMap()
	block["unveil"], block["pids_limit"] = list([]string{"r:/proc"}), cty.NumberIntVal(20)
	cfg.Config = cty.ObjectVal(block)
	out := f.run(cfg)
	if !strings.Contains(out.Stdout, "0::/nomad-test-delegated-") || !strings.Contains(out.Stdout, ".scope") {
		t.Errorf("the task's group is %q, want one in the delegated group", out.Stdout)
	}
	if strings.Contains(out.Stdout, "all") || !strings.Contains(out.Stderr, "fork") {
		t.Errorf("stdout %q, stderr %q: 40 processes were started, 20 are allowed", out.Stdout, out.Stderr)
	}
	bomb := sh(f, "x=x; while :; do x=$x$x; done")
	bomb.Limits.MemoryBytes = 32 << 20
	if out := f.run(bomb); !out.OOMKilled && out.Signal != 9 {
		t.Errorf("a task beyond its memory ended with %+v, want it killed", out.ExitResult)
	}
	sandboxMatches(t, f.Driver, f)
}

// sandboxMatches checks that the live sandbox of a task matches its policy.
func sandboxMatches(t *testing.T, d drivers.Sandboxer, f *fixture) {
	t.Helper()
	cfg, _ := f.living()
	report, err := d.Sandbox(t.Context(), cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range report.Layers {
		if !l.Match {
			t.Errorf("layer %+v does not match", l)
		}
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

var _ drivers.Sandboxer = (*exec2.Driver)(nil)

// delegate creates a group owned by nobody, as a service manager does.
func delegate(t *testing.T) string {
	t.Helper()
	h, err := cgroup.Detect()
	if err != nil {
		t.Skip(err)
	}
	have, err := os.ReadFile(filepath.Join(h.V2, "cgroup.controllers"))
	for _, c := range []string{"cpu", "memory", "pids"} {
		if h.V2 == "" || err != nil || !slices.Contains(strings.Fields(string(have)), c) {
			t.Skipf("needs version 2 of control groups with controller %s", c)
		}
		if err := os.WriteFile(filepath.Join(h.V2, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(h.V2, fmt.Sprintf("nomad-test-delegated-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Groups below it end with their last process; those of the agent remain.
		for _, d := range []string{"nomad.slice/share.slice", "nomad.slice/supervise", "nomad-test.slice/share.slice", "nomad-test.slice",
			"nomad.slice", "nomad-agent.scope", "."} {
			var err error
			testpace.Until(t, "the group is empty", func() bool { // killed processes stay in it until they have ended
				err = os.Remove(filepath.Join(dir, d))
				return !errors.Is(err, unix.EBUSY)
			})
			if err != nil && !os.IsNotExist(err) {
				t.Errorf("a group is left: %v", err)
			}
		}
	})
	for _, f := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, f), nobodyUID, nobodyUID); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
