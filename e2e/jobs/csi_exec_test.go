package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestCSIExec runs a plugin with exec, on a node whose operator lets tasks mount. Its mounts are on the node.
func TestCSIExec(t *testing.T) {
	harness.NeedsRoot(t)
	r := newCSIRig(t, "")
	r.configure(t, fmt.Sprintf(`plugin "exec" {
  config {
    allow_caps = ["all"]
    seccomp    = false
    landlock   = false
  }
}
client {
  options = {
    "user.denylist" = "nobody2"
  }
  chroot_env {
    "/etc" = "/etc"
    %q     = "/bin"
  }
  host_volume "storage" {
    path = %q
  }
}
`, filepath.Dir(r.program), r.storage()))
	a := r.next()
	harness.Run(t, a, harness.Job("disk", `type = "system"`, `
volume "storage" {
  type   = "host"
  source = "storage"
}
`+r.task("disk", "exec", "command = \"/bin/examplecsi\"\ncap_add = [\"sys_admin\"]\nargs = [\"-root\", \"/storage\", \"-attach=false\", \"-node\", \"n\"]",
		"user = \"root\"\nvolume_mount {\n volume = \"storage\"\n destination = \"/storage\"\n}\n")))
	al := harness.Await(t, a, "disk", "running", 1)[0]
	r.awaitHealthy(a, "disk")
	r.stages(al, "/local/csi")
	r.stop(a, "disk", al)
}

// TestCSIExec2 runs a controller plugin in the sandbox of exec2, with a user of its own.
func TestCSIExec2(t *testing.T) {
	harness.NeedsSandbox(t)
	r := newCSIRig(t, "plugin \"exec2\" {\n config {\n unveil_by_task = true\n }\n}\n")
	if err := os.Chmod(r.storage(), 0o777); err != nil {
		t.Fatal(err)
	}
	a := r.next()
	task := strings.NewReplacer(`"monolith"`, `"controller"`, "health_timeout", "mount_dir = \"/tmp/csi\"\nhealth_timeout").Replace(
		r.task("disk", "exec2", fmt.Sprintf("command = %q\n%s\nunveil = [\"rx:%s\", \"rwc:%s\"]", r.program, r.args(), filepath.Dir(r.program),
			r.storage())))
	harness.Run(t, a, harness.Job("disk", "", task))
	al := harness.Await(t, a, "disk", "running", 1)[0]
	harness.Within(t, harness.Patience, "the controller is healthy", func() bool {
		c := onlyNode(t, a).CSIControllerPlugins["disk"]
		return c != nil && c.Healthy && c.AllocID == al.ID
	})
	if n := onlyNode(t, a).CSINodePlugins["disk"]; n != nil {
		t.Errorf("a controller is reported as a plugin of the node: %+v", n)
	}
	if _, err := harness.Command(t, a, "job", "validate", harness.InstanceJob(t, r.dir, "node",
		strings.Replace(task, `"controller"`, `"node"`, 1))); err == nil {
		t.Error("exec2 can host a node plugin")
	}
	r.stop(a, "disk", al)
}
