package jobs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// twoExec2 configures exec2, which lets no task unveil paths, and a second instance, which does.
const twoExec2 = `
plugin "exec2-open" {
  backend = "exec2"
  config {
    unveil_by_task = true
  }
}
`

// readsFile returns a task of a driver that reads a file of the host and runs on.
func readsFile(driver, file, unveil string) string {
	return fmt.Sprintf("task \"t\" {\n driver = %q\n config {\n %s\n %s\n }\n resources {\n cpu = 50\n memory = 32\n }\n}\n",
		driver, harness.InShell("cat "+file+"; sleep infinity"), unveil)
}

// successive returns a function that starts an agent on a data directory. The earlier agent must have stopped.
func successive(t *testing.T, dir, cfg string) func() *cluster.Agent {
	t.Helper()
	o := cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}}
	var last *cluster.Agent
	return func() *cluster.Agent {
		t.Helper()
		agent := harness.Start(t, o)
		last = agent
		t.Cleanup(func() {
			if agent == last {
				harness.PurgeAll(t, agent)
			}
		})
		return agent
	}
}

// TestInstancesOfADriver runs one agent with two instances of exec2. Each has its own configuration and
// health, a namespace allows only one of them, and both recover their tasks after a restart. An
// instance that is removed leaves nothing behind.
func TestInstancesOfADriver(t *testing.T) {
	harness.NeedsSandbox(t)
	dir := harness.TempDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} { // tasks pass through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	cfg := filepath.Join(dir, "drivers.hcl")
	harness.WriteFile(t, cfg, twoExec2)
	next := successive(t, dir, cfg)
	a := next()
	node := onlyNode(t, a)
	for name, unveils := range map[string]string{"exec2": "false", "exec2-open": "true"} {
		prefix := "driver." + name + "."
		if d := node.Drivers[name]; d == nil || !d.Healthy || node.Attributes[prefix+"backend"] != "exec2" ||
			node.Attributes[prefix+"unveil.tasks"] != unveils || node.Attributes[prefix+"level"] != "strict" {
			t.Errorf("driver %s: %+v, attributes %v", name, d, node.Attributes)
		}
	}
	if out, err := harness.Command(t, a, "node", "status", "-verbose", node.ID); err != nil || !strings.Contains(out, "\nexec2-open ") {
		t.Errorf("node status: %v\n%s", err, out)
	}
	usedByNamespaces(t, a)

	const unveil = `unveil = ["r:/etc/passwd"]`
	harness.Run(t, a, harness.Job("plain", "", readsFile("exec2", "/etc/hostname", "")))
	harness.Run(t, a, harness.Job("open", "", readsFile("exec2-open", "/etc/passwd", unveil)))
	harness.Run(t, a, harness.Job("refused", `type = "batch"`, harness.Once+readsFile("exec2", "/etc/passwd", unveil)))
	pids := map[string]string{}
	for _, id := range []string{"plain", "open"} {
		pids[id] = sandboxedPID(t, a, harness.Await(t, a, id, "running", 1)[0])
	}
	harness.Within(t, harness.Patience, "the task reads the unveiled file",
		func() bool { return strings.Contains(harness.Log(a, harness.OnlyAlloc(t, a, "open")), "root:") })
	refused := harness.Await(t, a, "refused", "failed", 1)[0]
	if text := harness.Event(t, refused, "t", api.TaskDriverFailure).DisplayMessage; !strings.Contains(text, "unveil_by_task") {
		t.Errorf("events of the refused task: %s", text)
	}

	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	b := next()
	for _, id := range []string{"plain", "open"} {
		al := harness.Await(t, b, id, "running", 1)[0]
		if got := sandboxedPID(t, b, al); got != pids[id] || al.TaskStates["t"].Restarts != 0 {
			t.Errorf("%s: pid %s after the restart, was %s: %v", id, got, pids[id], harness.Events(al, "t"))
		}
		out, err := harness.Command(t, b, "alloc", "exec", "-task", "t", al.ID, "cat", "/etc/passwd")
		if read := strings.Contains(out, "root:"); read != (id == "open") || read && err != nil {
			t.Errorf("exec in the recovered task %s: %v\n%s", id, err, out)
		}
	}
	harness.StopAndWait(t, b, "plain", 1)
	for _, id := range []string{"plain", "refused"} {
		if _, _, err := b.Client.Jobs().Deregister(id, true, nil); err != nil {
			t.Fatal(err)
		}
	}

	// Without the instance its task is ended. Its jobs wait, and the reason is the driver.
	harness.WriteFile(t, cfg, "")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	c := next()
	harness.Within(t, harness.Patience, "the task of the removed instance is ended", func() bool { return harness.Gone(pids["open"]) })
	harness.Await(t, c, "open", "failed", 1)
	if _, _, err := c.Client.Jobs().Deregister("open", true, nil); err != nil {
		t.Fatal(err)
	}
	harness.WaitCollected(t, c, filepath.Join(dir, "data"))
	out, err := harness.Command(t, c, "job", "run", "-detach", instanceFile(t, dir, "later", "exec2-open", unveil))
	if err != nil || !strings.Contains(out, `no node has the driver "exec2-open"`) {
		t.Errorf("job run: %v\n%s", err, out)
	}
	harness.Within(t, harness.Patience, "the job is blocked because of its driver", func() bool {
		out, err := harness.Command(t, c, "job", "status", "later")
		return err == nil && strings.Contains(out, "missing drivers")
	})
}

// sandboxedPID returns the process ID of a task on the host, and checks that its sandbox is complete and
// as declared.
func sandboxedPID(t *testing.T, a *cluster.Agent, al *api.AllocationListStub) string {
	t.Helper()
	all, err := a.Client.Allocations().Sandbox(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, "t", nil)
	if err != nil || all["t"] == nil {
		t.Fatalf("sandbox of %s: %v, %v", al.Name, all, err)
	}
	for _, l := range all["t"].Layers {
		if !l.Match {
			t.Errorf("%s: %s is %q, declared %q", al.Name, l.Name, l.Live, l.Declared)
		}
	}
	if all["t"].Level != "strict" {
		t.Errorf("%s has the level %s, want strict", al.Name, all["t"].Level)
	}
	return strconv.Itoa(all["t"].PID)
}

// usedByNamespaces checks that a namespace allows one instance and denies the other.
func usedByNamespaces(t *testing.T, a *cluster.Agent) {
	t.Helper()
	for name, c := range map[string]*api.NamespaceCapabilities{
		"closed": {EnabledTaskDrivers: []string{"exec2"}}, "opened": {DisabledTaskDrivers: []string{"exec2"}},
	} {
		if _, err := a.Client.Namespaces().Register(&api.Namespace{Name: name, Capabilities: c}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for namespace, allowed := range map[string]string{"closed": "exec2", "opened": "exec2-open"} {
		for _, driver := range []string{"exec2", "exec2-open"} {
			text := harness.Job("in-"+namespace, fmt.Sprintf("namespace = %q\n type = \"batch\"", namespace), harness.Once+
				fmt.Sprintf("task \"t\" {\n driver = %q\n config {\n command = \"/bin/true\"\n }\n}\n", driver))
			file := filepath.Join(t.TempDir(), "job.nomad.hcl")
			harness.WriteFile(t, file, text)
			out, err := harness.Command(t, a, "job", "run", file)
			denied := strings.Contains(out, fmt.Sprintf("uses the task driver %q, which is not allowed in namespace %q", driver, namespace))
			if denied == (driver == allowed) || (err == nil) != (driver == allowed) {
				t.Errorf("a job of %s in namespace %s: %v\n%s", driver, namespace, err, out)
			}
		}
	}
}

// instanceFile writes a job of a driver to a file.
func instanceFile(t *testing.T, dir, id, driver, unveil string) string {
	t.Helper()
	file := filepath.Join(dir, id+".nomad.hcl")
	harness.WriteFile(t, file, harness.Job(id, "", readsFile(driver, "/etc/passwd", unveil)))
	return file
}

// TestBadPluginBlocks starts agents with faulty plugin blocks. Each fails with the place and the mend.
func TestBadPluginBlocks(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown backend": {"plugin \"open\" {\n  backend = \"exec9\"\n}\n",
			`:2: plugin.open.backend: unknown driver "exec9": set backend to one of docker, exec, exec2, java, mock_driver, qemu, raw_exec`},
		"one label twice": {"plugin \"open\" {\n  backend = \"exec2\"\n}\nplugin \"open\" {\n  backend = \"raw_exec\"\n}\n",
			`:4,8: plugin.open: duplicate block, first at line 1: rename one, or merge them`},
		"a path": {"plugin \"../open\" {\n  backend = \"exec2\"\n}\n",
			`:1: plugin.../open: the label is not a name: use 1 to 64 letters`},
		"refused config": {"plugin \"open\" {\n  backend = \"exec2\"\n  config {\n    pids = 1\n  }\n}\n",
			`:3: plugin.open.config: config of driver exec2: unknown argument "pids" in config; expected one of: allow_root`},
		"missing file": {"plugin \"open\" {\n  backend = \"exec2\"\n  config {\n    seccomp_profile = \"few\"\n  }\n}\n",
			`:1: plugin.open: config of driver open: seccomp_profile: "few" is not a profile of this node`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := harness.TempDir(t)
			cfg := filepath.Join(dir, "bad.hcl")
			harness.WriteFile(t, cfg, tc.text)
			ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
			defer cancel()
			out, err := exec.CommandContext(ctx, "nomad", "agent", "-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
				"-data-dir="+filepath.Join(dir, "data"), "-config="+cfg).CombinedOutput()
			if err == nil || ctx.Err() != nil || !strings.Contains(string(out), cfg+tc.want) {
				t.Errorf("the agent ends with %v and prints %q, want %q", err, out, cfg+tc.want)
			}
		})
	}
}
