package jobs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// TestCSIDocker runs plugins in containers that may mount: what they mount is on the node, also after a restart of the agent. Without
// privileged = true, they are refused.
func TestCSIDocker(t *testing.T) {
	daemon := testdocker.Start(t)
	r := newCSIRig(t, fmt.Sprintf(`plugin "docker" {
  config {
    endpoint         = %q
    infra_image      = %q
    allow_privileged = true
    allow_caps       = ["all"]
    volumes {
      enabled = true
    }
  }
}
server {
  privileged = "explicit"
}
`, daemon.Endpoint(), testdocker.Pause))
	a := r.next()
	config := fmt.Sprintf("image = %q\ncommand = \"/bin/examplecsi\"\n%s\nvolumes = [\"%s:/bin/examplecsi\", \"%[4]s:%[4]s\"]\n",
		testdocker.Image, r.args(), r.program, r.storage())
	for name, option := range map[string]string{"sys_admin": "cap_add = [\"sys_admin\"]", "privileged": "privileged = true"} {
		t.Run(name, func(t *testing.T) {
			job := func(more string) string {
				return harness.Job(name, `type = "system"`, "restart {\n attempts = 0\n mode = \"fail\"\n}\n"+
					r.task("disk", "docker", config+option, more))
			}
			refusesPlugin(t, a, job(""))
			harness.Run(t, a, job("privileged = true"))
			al := onlyDocker(t, a, name)
			r.awaitHealthy(a, "disk")
			r.stages(al, "/local/csi")
			// Only a privileged container can use devices.
			out, err := harness.Command(t, a, "alloc", "exec", "-task", "t", al.ID, "sh", "-c", "ls /csi/csi.sock && : < /dev/kmsg && echo opened")
			if !strings.Contains(out, "csi.sock") || strings.Contains(out, "opened") != (name == "privileged") {
				t.Errorf("socket and devices: %v\n%s", err, out)
			}
			if err := a.Kill(); err != nil {
				t.Fatal(err)
			}
			a = r.next()
			r.awaitHealthy(a, "disk")
			if again := harness.OnlyAlloc(t, a, name); again.ID != al.ID || again.TaskStates["t"].Restarts != 0 {
				t.Errorf("after a kill of the agent: allocation %s, was %s; %v", again.ID, al.ID, harness.Events(again, "t"))
			}
			r.stages(al, "/local/csi")
			r.stop(a, name, al)
		})
	}
}

// refusesPlugin checks that servers refuse a plugin whose task is not privileged.
func refusesPlugin(t *testing.T, a *cluster.Agent, hcl string) {
	t.Helper()
	job, err := a.Client.Jobs().ParseHCL(hcl, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Client.Jobs().Register(job, nil); err == nil || !strings.Contains(err.Error(), "add privileged = true to the task") {
		t.Errorf("a plugin without privilege: %v", err)
	}
}

// onlyDocker returns the allocation of a job when its container runs. The test is skipped on a machine that cannot run it.
func onlyDocker(t *testing.T, a *cluster.Agent, job string) (al *api.AllocationListStub) {
	t.Helper()
	harness.Within(t, harness.Patience, job+" runs", func() bool {
		all := harness.AllAllocs(t, a, job)
		if len(all) > 0 {
			al = all[0]
		}
		return al != nil && al.ClientStatus != api.AllocClientStatusPending
	})
	for _, e := range al.TaskStates["t"].Events {
		if strings.Contains(e.DisplayMessage, "unable to apply caps") {
			harness.Stop(t, a, job)
			t.Skip("needs all capabilities of the kernel, which this machine lacks: the daemon was asked for them")
		}
	}
	return harness.Await(t, a, job, "running", 1)[0]
}
