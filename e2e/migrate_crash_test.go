package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// TestKilledDuringMigration kills the agent that copies data from another node. The next agent starts
// the copy again: the data is complete, and nothing partial is left.
func TestKilledDuringMigration(t *testing.T) {
	asRoot(t)
	f := newFleet(t, quickBeats)
	passable(t, f.dir)
	first := f.join("first", loopback)
	defer f.purge()
	group := "ephemeral_disk {\n size = 900\n migrate = true\n}\nmigrate {\n max_parallel = 1\n min_healthy_time = \"100ms\"\n}\n" + `task "t" {
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
	id, _ := run(t, f.srv, job("big", "", group))
	old := await(t, f.srv, id, "running", 1)[0]
	sum := sumOf(t, f, old)
	second := f.join("second", loopback)
	if out, err := nomadCommand(t, f.srv, "node", "drain", "-enable", "-yes", "-detach", nodeID(t, first)); err != nil {
		t.Fatalf("node drain: %v\n%s", err, out)
	}
	// The copy has begun when the file exists in the staging directory.
	allocs := filepath.Join(f.dir, "second", "data", "alloc")
	within(t, patience, "the copy has begun", func() bool {
		parts, err := filepath.Glob(filepath.Join(allocs, "*", ".migrate", "alloc", "data", "big"))
		return err == nil && len(parts) == 1
	})
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	partial, err := filepath.Glob(filepath.Join(allocs, "*", ".migrate"))
	t.Logf("at the kill: %v, %v", partial, err)
	again(t, second)
	next := successor(t, f.srv, id, []string{old.ID})
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
func sumOf(t *testing.T, f *fleet, al *api.AllocationListStub) string {
	t.Helper()
	var sum string
	within(t, patience, "the task has written its sum", func() bool {
		out, err := nomadCommand(t, f.srv, "alloc", "fs", al.ID, "alloc/data/sum-"+al.ID)
		sum = strings.TrimSpace(out)
		return err == nil && len(sum) > 60
	})
	return sum
}
