package jobs_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestQemu runs a guest whose disk is an artifact. It continues while the agent restarts, and powers off when its job is
// stopped.
func TestQemu(t *testing.T) {
	harness.NeedsSandbox(t)
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("needs qemu-system-x86_64: apt-get install qemu-system-x86")
	}
	s := newArtifactServer(t, map[string][]byte{"/disk": testtask.GuestDisk()})
	r := newPluginRig(t, "plugin \"qemu\" {}\n")
	a := r.agent()
	harness.Within(t, harness.Patience, "a healthy driver", func() bool { d, _ := driverOf(a, "qemu"); return d.Healthy })
	task := func(more string) string {
		return fmt.Sprintf("task \"t\" {\n driver = \"qemu\"\n isolation = \"strict\"\n kill_timeout = \"50s\"\n %s\n config {\n image_path = \"local/disk\"\n"+
			" graceful_shutdown = true\n %s\n }\n resources {\n cpu = 100\n memory = 128\n }\n}\n", artifact(s.URL+"/disk"), more)
	}
	harness.Run(t, a, harness.Job("vm", "", task("")))
	al := harness.Await(t, a, "vm", "running", 1)[0]
	hello := func(want int) {
		t.Helper()
		harness.Within(t, harness.Patience, "the output of the guest", func() bool {
			return strings.Count(harness.Log(a, al), testtask.GuestGreeting) == want
		})
	}
	hello(1)
	if _, _, _, err := runIn(t, a, al.ID, "t", "true", strings.NewReader("")); err == nil ||
		!strings.Contains(err.Error(), "does not support exec sessions") {
		t.Errorf("exec = %v", err)
	}
	alloc := &api.Allocation{ID: al.ID, NodeID: al.NodeID}
	if err := a.Client.Allocations().Signal(alloc, nil, "t", "SIGUSR1"); err == nil ||
		!strings.Contains(err.Error(), "QEMU driver can't signal commands") {
		t.Errorf("signal = %v", err)
	}
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = r.agent()
	al = harness.Await(t, a, "vm", "running", 1)[0]
	if got := al.TaskStates["t"].Restarts; got != 0 {
		t.Errorf("%d restarts, want none", got)
	}
	harness.Stop(t, a, "vm")
	al = harness.Await(t, a, "vm", "complete", 1)[0]
	if got := harness.Event(t, al, "t", api.TaskTerminated).Details; got["exit_code"] != "0" || got["signal"] != "0" {
		t.Errorf("end = %v, want a guest that has powered off", got)
	}

	// Arguments of the job cannot give the guest files of the node.
	harness.Run(t, a, harness.Job("thief", `type = "batch"`, harness.Once+task(`args = ["-drive", "file=/etc/passwd,format=raw,if=virtio"]`)))
	al = harness.Await(t, a, "thief", "failed", 1)[0]
	hello(0)
}
