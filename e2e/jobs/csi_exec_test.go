package jobs_test

import (
	"fmt"
	"path/filepath"
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
