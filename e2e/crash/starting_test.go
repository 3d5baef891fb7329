package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

const startedAtOnce = 12 // tasks that start during a crash

// The agent is repeatedly killed in the milliseconds in which tasks start: no task starts twice,
// and none is lost.
func TestKilledWhileTasksStart(t *testing.T) {
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "drivers.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers)
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			"-config=" + cfg}})
	for round := range 4 {
		marks := filepath.Join(dir, fmt.Sprintf("round-%d", round))
		harness.Mkdir(t, marks)
		group := fmt.Sprintf("count = %d\n", startedAtOnce) + harness.Shell("echo $$ >> "+marks+"/$NOMAD_ALLOC_INDEX; exec sleep 3600")
		id, _ := harness.Run(t, a, harness.Job(fmt.Sprintf("starts-%d", round), "", group))
		// Not before the first has started, and a few later each time.
		harness.Within(t, harness.Patience, "the first starts", func() bool { return len(pidsIn(t, marks)) > 3*round })
		if err := a.Kill(); err != nil {
			t.Fatal(err)
		}
		a = harness.Start(t, a.Options)
		allocs := harness.Await(t, a, id, "running", startedAtOnce)
		for _, al := range allocs {
			if n := al.TaskStates["t"].Restarts; n != 0 {
				t.Errorf("round %d: %s was restarted %d times", round, al.Name, n)
			}
		}
		var pids map[string]string
		harness.Within(t, harness.Patience, "every task has reported its start", func() bool {
			pids = pidsIn(t, marks)
			return len(pids) == startedAtOnce
		})
		for name, p := range pids {
			if strings.Contains(p, "\n") {
				t.Errorf("round %d: the task of %s was started more than once: %q", round, name, p)
			} else if _, err := os.Stat("/proc/" + p); err != nil {
				t.Errorf("round %d: the process of %s has ended: %v", round, name, err)
			}
		}
		harness.StopAndWait(t, a, id, len(allocs))
	}
}

// pidsIn returns the process IDs that tasks wrote to files of a directory.
func pidsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 0 {
			out[f.Name()] = strings.TrimSpace(string(text))
		}
	}
	return out
}
