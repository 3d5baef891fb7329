package jobs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/testaudit"
)

// explaining starts an agent that reports the denials of its sandboxes.
func explaining(t *testing.T) *cluster.Agent {
	t.Helper()
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "explain.hcl")
	harness.WriteFile(t, cfg, strings.Replace(harness.UnveilConfig(), "config {", "config {\n    explain_denials = \"audit\"", 1))
	return harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-dev", "-config=" + cfg}})
}

// refusedJob reads a file, creates one below dir and reads it again, and creates a user namespace.
// Each is denied, and prevents the next step.
func refusedJob(name, kind, dir, then string) string {
	return fmt.Sprintf(`job %q {
  type = %q
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "exec2"
      config {
        command = "/bin/sh"
        args    = ["-c", "cat /etc/passwd > /dev/null && echo x > %s/x.$NOMAD_ALLOC_ID && cat %s/x.$NOMAD_ALLOC_ID; unshare -U true; %s"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`, name, kind, dir, dir, then)
}

// TestLearn runs a job until nothing further is denied; the printed configuration allows it.
func TestLearn(t *testing.T) {
	testaudit.Need(t, denials.Audit)
	a := explaining(t)
	dir := "/var/tmp/" + strings.ReplaceAll(t.Name(), "/", "-") + fmt.Sprint(os.Getpid())
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(harness.TempDir(t), "job.nomad.hcl")
	harness.WriteFile(t, file, refusedJob("learner", "service", dir, "true"))

	out, err := harness.Command(t, a, "job", "learn", "-json", file)
	if err != nil {
		t.Fatalf("job learn: %v\n%s", err, out)
	}
	var got struct {
		Runs     int
		Complete bool
		Tasks    []struct {
			Unveil []string
			Other  []denials.Denial
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Tasks) != 1 {
		t.Fatalf("%v in %s", err, out)
	}
	want := []string{"r:/etc/passwd", "rwc:" + dir}
	if !slices.Equal(got.Tasks[0].Unveil, want) || !got.Complete || got.Runs < 3 {
		t.Errorf("learnt %q in %d runs, complete %t; want %q", got.Tasks[0].Unveil, got.Runs, got.Complete, want)
	}
	if o := got.Tasks[0].Other; len(o) != 1 || o[0].Rule != "unshare" {
		t.Errorf("also denied: %+v, want unshare", o)
	}
	jobs, _, err := a.Client.Jobs().List(nil)
	if err != nil || len(jobs) != 0 {
		t.Errorf("left %d jobs behind (%v)", len(jobs), err)
	}

	if out, err := harness.Command(t, a, "job", "learn", "-runs=1", file); err == nil || !strings.Contains(out, "there may be more") ||
		!strings.Contains(out, `"r:/etc/passwd",`) {
		t.Errorf("one run: %v\n%s", err, out)
	}
	harness.WriteFile(t, file, strings.Replace(refusedJob("learner", "batch", dir, "true"), `type = "batch"`, `type = "sysbatch"`, 1))
	if out, err := harness.Command(t, a, "job", "learn", file); err == nil || !strings.Contains(out, "sysbatch") {
		t.Errorf("a job that cannot be run once: %v\n%s", err, out)
	}
}

// TestLearnWithoutAudit checks the instructions for reporting denials.
func TestLearnWithoutAudit(t *testing.T) {
	needsSandbox(t)
	a := harness.DevAgent(t)
	file := filepath.Join(harness.TempDir(t), "job.nomad.hcl")
	harness.WriteFile(t, file, refusedJob("learner", "batch", "/var/tmp", "true"))
	out, err := harness.Command(t, a, "job", "learn", file)
	if err == nil || !strings.Contains(out, `explain_denials = "audit"`) {
		t.Errorf("job learn: %v\n%s", err, out)
	}
}

// needsSandbox skips where exec2 does not sandbox as under root.
func needsSandbox(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// TestSandboxShown: a denial is an event in alloc status, and the effective sandbox is shown as
// declared.
func TestSandboxShown(t *testing.T) {
	testaudit.Need(t, denials.Audit)
	a := explaining(t)
	job, _ := harness.Run(t, a, refusedJob("shown", "service", "/var/tmp", "sleep 600"))
	var al *api.AllocationListStub
	harness.Within(t, harness.Patience, "a reported denial", func() bool {
		list := harness.Allocs(t, a, job, api.AllocClientStatusRunning)
		if len(list) == 0 {
			return false
		}
		al = list[0]
		return slices.Contains(harness.Events(al, "t"), api.TaskSandboxDenial)
	})
	out, err := harness.Command(t, a, "alloc", "status", al.ID)
	if err != nil || !strings.Contains(out, `fs.read_file /etc/passwd (unveil = ["r:/etc/passwd"] allows it)`) {
		t.Errorf("alloc status: %v\n%s", err, out)
	}
	out, err = harness.Command(t, a, "alloc", "sandbox", al.ID)
	if err != nil {
		t.Errorf("alloc sandbox: %v\n%s", err, out)
	}
	for _, layer := range []string{"CapEff", "seccomp", "pids.max", "pid namespace", "mnt namespace", "landlock", "no_new_privs", "uid"} {
		if !strings.Contains(out, "\n"+layer) {
			t.Errorf("alloc sandbox does not show %s:\n%s", layer, out)
		}
	}
	if out, err := harness.Command(t, a, "alloc", "sandbox", "-task=none", al.ID); err == nil {
		t.Errorf("alloc sandbox of a task that is not there:\n%s", out)
	}
	harness.Stop(t, a, job)
}
