package harness

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

func TestMain(m *testing.M) { Main(m, nil) }

// TestEndAbandoned checks that nothing of the tasks of a killed agent remains, with and without a supervisor. Tasks of another
// agent run on.
func TestEndAbandoned(t *testing.T) {
	NeedsRoot(t)
	for _, supervisor := range []string{"runs", "was killed"} {
		t.Run(supervisor, func(t *testing.T) {
			start := func() (*cluster.Agent, string) {
				dir := TempDir(t)
				cfg := filepath.Join(dir, "c.hcl")
				WriteFile(t, cfg, TestDrivers)
				a := Start(t, cluster.Options{Dir: dir, Lean: true, Args: []string{"-server", "-client", "-bootstrap-expect=1",
					"-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
				Run(t, a, Job("shop", "", Shell("(while :; do sleep 0.1; done) & while :; do sleep 0.1; done")))
				Await(t, a, "shop", "running", 1)
				Within(t, Patience, "both shells run", func() bool { return len(abandoned(t, dir)) >= 2 })
				return a, dir
			}
			other, otherDir := start()
			defer PurgeAll(t, other)
			a, dir := start()
			if err := a.Kill(); err != nil {
				t.Fatal(err)
			}
			if supervisor == "was killed" {
				if err := syscall.Kill(Supervisor(t, dir), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			Within(t, Patience, "both shells outlive the agent", func() bool { return len(abandoned(t, dir)) >= 2 })
			endAbandoned(t, dir)
			if left := abandoned(t, dir); len(left) > 0 {
				t.Errorf("processes %v remain", left)
			}
			Within(t, Patience, "the supervisor ends", func() bool { return Supervisor(t, dir) == 0 })
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(mounts), " "+dir+"/") {
				t.Error("a mount remains")
			}
			if Supervisor(t, otherDir) == 0 || !strings.Contains(string(mounts), " "+otherDir+"/") {
				t.Error("the supervisor or a mount of the other agent has ended")
			}
			Within(t, Patience, "the shells of the other agent run on", func() bool { return len(abandoned(t, otherDir)) >= 2 })
		})
	}
}
