package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
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

// inDocker returns a task of an instance of the driver that runs a script.
func inDocker(driver, script, more string) string {
	return fmt.Sprintf("task \"t\" {\n driver = %q\n kill_timeout = \"2s\"\n config {\n image = %q\n command = \"sh\"\n args = [\"-c\", %q]\n %s\n }\n resources {\n cpu = 50\n memory = 64\n }\n}\n",
		driver, testdocker.Image, script, more)
}

// TestDocker runs jobs of two instances of the driver docker with a daemon of its own: logs, commands,
// a group's network, refusals, a restart of the agent, and the end.
func TestDocker(t *testing.T) {
	daemon := testdocker.Start(t)
	dir := tempDir(t)
	cfg := filepath.Join(dir, "docker.hcl")
	write(t, cfg, fmt.Sprintf(twoDockers, daemon.Endpoint(), testdocker.Pause))
	write(t, filepath.Join(dir, "host.txt"), "of the host\n")
	o := cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}}
	var last *cluster.Agent // the earlier one is stopped
	next := func() *cluster.Agent {
		agent := start(t, o)
		last = agent
		t.Cleanup(func() {
			if agent == last {
				purgeAll(t, agent)
			}
		})
		return agent
	}
	a := next()
	nodes, _, err := a.Client.Nodes().List(nil)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("nodes = %v, %v, want one", nodes, err)
	}
	node, _, err := a.Client.Nodes().Info(nodes[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, privileged := range map[string]string{"docker": "", "docker-privileged": "true"} {
		if d := node.Drivers[name]; d == nil || !d.Healthy || node.Attributes["driver."+name+".backend"] != "docker" || node.Attributes["driver."+name+".privileged.enabled"] != privileged {
			t.Errorf("driver %s: %+v, attributes %v", name, d, node.Attributes)
		}
	}

	hostFile := fmt.Sprintf("volumes = [\"%s:/host.txt\"]", filepath.Join(dir, "host.txt"))
	run(t, a, job("web", "", inDocker("docker", "echo up $NOMAD_TASK_NAME; while :; do sleep 1; done", "")))
	run(t, a, job("netless", "", "network {\n mode = \"none\"\n}\n"+inDocker("docker", "ls /sys/class/net; while :; do sleep 1; done", "")))
	run(t, a, job("host", "", inDocker("docker-privileged", "cat /host.txt; while :; do sleep 1; done", hostFile)))
	run(t, a, job("refused", `type = "batch"`, once+inDocker("docker", "true", hostFile)))
	containers := map[string]string{}
	for id, want := range map[string]string{"web": "up t\n", "netless": "lo\n", "host": "of the host\n"} {
		await(t, a, id, "running", 1)
		within(t, patience, "the output of "+id, func() bool { return log(a, onlyAlloc(t, a, id)) == want })
		containers[id] = inContainer(t, a, id)
	}
	refused := await(t, a, "refused", "failed", 1)[0]
	if text := event(t, refused, "t", api.TaskDriverFailure).DisplayMessage; !strings.Contains(text, "volumes are not enabled; cannot mount host path") {
		t.Errorf("events of the refused task: %s", text)
	}
	if out, err := nomadCommand(t, a, "job", "run", "-detach", instanceJob(t, dir, "ports", inDocker("docker", "true", `ports = ["http"]`))); err == nil || !strings.Contains(out, "port \"http\" not found, check network block: it has no ports") {
		t.Errorf("job run with ports: %v\n%s", err, out)
	}

	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	b := next()
	for id, hostname := range containers {
		al := await(t, b, id, "running", 1)[0]
		if got := inContainer(t, b, id); got != hostname || al.TaskStates["t"].Restarts != 0 {
			t.Errorf("%s: container %s after the restart, was %s: %v", id, got, hostname, events(al, "t"))
		}
	}
	for id := range containers {
		stopped(t, b, id, 1)
	}
}

// inContainer returns the ID of the container in which a command of alloc exec runs.
func inContainer(t *testing.T, a *cluster.Agent, id string) string {
	t.Helper()
	al := await(t, a, id, "running", 1)[0]
	out, err := nomadCommand(t, a, "alloc", "exec", "-task", "t", al.ID, "readlink", "/proc/1/ns/pid")
	if err != nil || !strings.HasPrefix(out, "pid:[") {
		t.Errorf("exec in %s: %v\n%s", id, err, out)
	}
	return strings.TrimSpace(out)
}

// instanceJob writes the file of a job with a task.
func instanceJob(t *testing.T, dir, id, task string) string {
	t.Helper()
	file := filepath.Join(dir, id+".nomad.hcl")
	write(t, file, job(id, "", task))
	return file
}
