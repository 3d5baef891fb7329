package nodes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestKilledDuringMigration kills the agent that copies data from another node. The next agent starts
// the copy again: the data is complete, and nothing partial is left.
func TestKilledDuringMigration(t *testing.T) {
	harness.NeedsRoot(t)
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	harness.Passable(t, f.Dir)
	first := f.Join("first", harness.Loopback)
	defer f.Purge()
	group := "ephemeral_disk {\n size = 900\n migrate = true\n}\nmigrate {\n max_parallel = 1\n min_healthy_time = \"100ms\"\n}\n" +
		`task "t" {
  driver = "exec2"
  config {
    command = "/bin/sh"
    args    = ["-c", "test -e ${NOMAD_ALLOC_DIR}/data/big || yes 0123456789abcdef | head -c 100000000 >${NOMAD_ALLOC_DIR}/data/big; sha256sum <${NOMAD_ALLOC_DIR}/data/big >${NOMAD_ALLOC_DIR}/data/sum-$NOMAD_ALLOC_ID; exec sleep 3600"]
  }
  resources {
    cpu    = 500
    memory = 512
  }
}
`
	id, _ := harness.Run(t, f.Server, harness.Job("big", "", group))
	old := harness.Await(t, f.Server, id, "running", 1)[0]
	sum := sumOf(t, f, old)
	second := f.Join("second", harness.Loopback)
	if out, err := harness.Command(t, f.Server, "node", "drain", "-enable", "-yes", "-detach", harness.NodeID(t, first)); err != nil {
		t.Fatalf("node drain: %v\n%s", err, out)
	}
	// The copy has begun when the file exists in the staging directory.
	allocs := filepath.Join(f.Dir, "second", "data", "alloc")
	harness.Within(t, harness.Patience, "the copy has begun", func() bool {
		parts, err := filepath.Glob(filepath.Join(allocs, "*", ".migrate", "alloc", "data", "big"))
		return err == nil && len(parts) == 1
	})
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	partial, err := filepath.Glob(filepath.Join(allocs, "*", ".migrate"))
	t.Logf("at the kill: %v, %v", partial, err)
	harness.Restart(t, second)
	next := successor(t, f.Server, id, []string{old.ID})
	if got := sumOf(t, f, next); got != sum {
		t.Errorf("the data has the sum %q, want %q", got, sum)
	}
	if left, err := filepath.Glob(filepath.Join(allocs, "*", ".migrate")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(allocs, next.ID, "alloc", "data", "sum-"+old.ID)); err != nil {
		t.Errorf("a file of the first allocation is missing: %v", err)
	}
}

// sumOf waits for the sum that the task of an allocation writes.
func sumOf(t *testing.T, f *harness.Fleet, al *api.AllocationListStub) string {
	t.Helper()
	var sum string
	harness.Within(t, harness.Patience, "the task has written its sum", func() bool {
		out, err := harness.Command(t, f.Server, "alloc", "fs", al.ID, "alloc/data/sum-"+al.ID)
		sum = strings.TrimSpace(out)
		return err == nil && len(sum) > 60
	})
	return sum
}
