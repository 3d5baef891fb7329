package jobs_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// twoDockers are the two instances that users wrote down: one for all jobs, one for the jobs of a namespace.
const twoDockers = `
plugin "docker" {
  config {
    endpoint         = %[1]q
    infra_image      = %[2]q
    allow_privileged = false
    volumes {
      enabled = false
    }
  }
}

plugin "docker-privileged" {
  backend = "docker"
  config {
    endpoint         = %[1]q
    allow_privileged = true
    volumes {
      enabled = true
    }
  }
}
`

// TestDocker runs jobs of two instances of the driver docker with a daemon of its own: logs, commands,
// a group's network, refusals, a restart of the agent, and the end.
func TestDocker(t *testing.T) {
	daemon := testdocker.Start(t)
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "docker.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf(twoDockers, daemon.Endpoint(), testdocker.Pause))
	harness.WriteFile(t, filepath.Join(dir, "host.txt"), "of the host\n")
	next := successive(t, dir, cfg)
	a := next()
	node := onlyNode(t, a)
	for name, privileged := range map[string]string{"docker": "", "docker-privileged": "true"} {
		if d := node.Drivers[name]; d == nil || !d.Healthy || node.Attributes["driver."+name+".backend"] != "docker" ||
			node.Attributes["driver."+name+".privileged.enabled"] != privileged {
			t.Errorf("driver %s: %+v, attributes %v", name, d, node.Attributes)
		}
	}

	hostFile := fmt.Sprintf("volumes = [\"%s:/host.txt\"]", filepath.Join(dir, "host.txt"))
	harness.Run(t, a, harness.Job("web", "", harness.DockerTask("docker", "echo up $NOMAD_TASK_NAME; while :; do sleep 1; done", "")))
	harness.Run(t, a, harness.Job("netless", "",
		"network {\n mode = \"none\"\n}\n"+harness.DockerTask("docker", "ls /sys/class/net; while :; do sleep 1; done", "")))
	harness.Run(t, a, harness.Job("host", "", harness.DockerTask("docker-privileged", "cat /host.txt; while :; do sleep 1; done", hostFile)))
	harness.Run(t, a, harness.Job("refused", `type = "batch"`, harness.Once+harness.DockerTask("docker", "true", hostFile)))
	containers := map[string]string{}
	for id, want := range map[string]string{"web": "up t\n", "netless": "lo\n", "host": "of the host\n"} {
		harness.Await(t, a, id, "running", 1)
		harness.Within(t, harness.Patience, "the output of "+id, func() bool { return harness.Log(a, harness.OnlyAlloc(t, a, id)) == want })
		containers[id] = inContainer(t, a, id)
	}
	refused := harness.Await(t, a, "refused", "failed", 1)[0]
	if text := harness.Event(t, refused, "t", api.TaskDriverFailure).DisplayMessage; !strings.Contains(text,
		"volumes are not enabled; cannot mount host path") {
		t.Errorf("events of the refused task: %s", text)
	}
	if out, err := harness.Command(t, a, "job", "run", "-detach", harness.InstanceJob(t, dir, "ports",
		harness.DockerTask("docker", "true", `ports = ["http"]`))); err == nil ||
		!strings.Contains(out, "port \"http\" not found, check network block: it has no ports") {
		t.Errorf("job run with ports: %v\n%s", err, out)
	}

	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	b := next()
	for id, hostname := range containers {
		al := harness.Await(t, b, id, "running", 1)[0]
		if got := inContainer(t, b, id); got != hostname || al.TaskStates["t"].Restarts != 0 {
			t.Errorf("%s: container %s after the restart, was %s: %v", id, got, hostname, harness.Events(al, "t"))
		}
	}
	for id := range containers {
		harness.StopAndWait(t, b, id, 1)
	}
}

// inContainer returns the ID of the container in which a command of alloc exec runs.
func inContainer(t *testing.T, a *cluster.Agent, id string) string {
	t.Helper()
	al := harness.Await(t, a, id, "running", 1)[0]
	out, err := harness.Command(t, a, "alloc", "exec", "-task", "t", al.ID, "readlink", "/proc/1/ns/pid")
	if err != nil || !strings.HasPrefix(out, "pid:[") {
		t.Errorf("exec in %s: %v\n%s", id, err, out)
	}
	return strings.TrimSpace(out)
}
