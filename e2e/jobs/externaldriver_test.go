package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// driverOf returns the state of a driver on the only node.
func driverOf(a *cluster.Agent, name string) (*api.DriverInfo, map[string]string) {
	nodes, _, err := a.Client.Nodes().List(nil)
	if err != nil || len(nodes) != 1 {
		return &api.DriverInfo{}, nil
	}
	node, _, err := a.Client.Nodes().Info(nodes[0].ID, nil)
	if err != nil || node.Drivers[name] == nil {
		return &api.DriverInfo{}, nil
	}
	return node.Drivers[name], node.Attributes
}

// example returns a task of the example driver.
func example(script string, extra ...string) string {
	return fmt.Sprintf("task \"t\" {\n driver = \"example\"\n config {\n %s\n }\n resources {\n cpu = 50\n memory = 32\n }\n %s\n}\n",
		harness.InShell(script), strings.Join(extra, "\n"))
}

// pluginRig is an agent with a plugin_dir.
type pluginRig struct {
	t       *testing.T
	plugins string // plugin_dir
	options cluster.Options
	last    *cluster.Agent
}

func newPluginRig(t *testing.T, config string) *pluginRig {
	t.Helper()
	dir := harness.TempDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} { // tasks pass through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	r := &pluginRig{t: t, plugins: filepath.Join(dir, "plugins")}
	cfg := filepath.Join(dir, "plugins.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf("plugin_dir = %q\nplugin \"raw_exec\" {\n config {\n enabled = true\n }\n}\n%s", r.plugins, config))
	r.options = cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}}
	return r
}

// agent starts an agent. The tasks of the last one are purged at the end.
func (r *pluginRig) agent() *cluster.Agent {
	r.t.Helper()
	a := harness.Start(r.t, r.options)
	r.last = a
	r.t.Cleanup(func() {
		if a == r.last {
			harness.PurgeAll(r.t, a)
		}
	})
	return a
}

// checkedByServers checks that the servers have the schema of the external driver.
func checkedByServers(t *testing.T, a *cluster.Agent) {
	t.Helper()
	j, err := a.Client.Jobs().ParseHCL(harness.Job("wrong", `type = "batch"`,
		"task \"t\" {\n driver = \"example\"\n config {\n commandd = \"x\"\n }\n}\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	const want = `task "t": driver "example": config: "commandd": No argument or block type is named "commandd". Did you mean "command"?`
	harness.Within(t, harness.Patience, "an error with the nearest name", func() bool {
		_, _, err := a.Client.Jobs().Plan(j, false, nil) // the servers have the schema soon after the registration
		return harness.StatusCode(err) == 400 && strings.Contains(err.Error(), want)
	})
}

// TestExampleDriver runs tasks with an external driver that is a module of its own.
func TestExampleDriver(t *testing.T) {
	crash := filepath.Join(t.TempDir(), "crash")
	r := newPluginRig(t, fmt.Sprintf("plugin \"exampledriver\" {\n config {\n greeting = \"ahoj\"\n crash_file = %q\n }\n}\n", crash))
	harness.BuildPlugin(t, r.plugins, "../exampledriver", "exampledriver")
	a := r.agent()
	d, attributes := driverOf(a, "example")
	if !d.Healthy || attributes["driver.example"] != "1" || attributes["driver.example.greeting"] != "ahoj" ||
		attributes["driver.example.backend"] != "example" || attributes["kernel.name"] != "linux" {
		t.Fatalf("driver = %+v, attributes %v", d, attributes)
	}
	one := func() int {
		t.Helper()
		pids := harness.PluginProcesses(t, r.plugins, "exampledriver")
		if len(pids) != 1 {
			t.Fatalf("the driver has processes %v, want one", pids)
		}
		return pids[0]
	}
	one()
	checkedByServers(t, a)

	harness.Run(t, a, harness.Job("long", "",
		example(`trap 'echo got USR1' USR1; trap 'echo bye; exit 0' TERM; echo pid $$; n=0; while true; do echo line $n; n=$((n+1)); sleep 0.2; done`, `kill_signal = "SIGTERM"`)))
	al := harness.Await(t, a, "long", "running", 1)[0]
	pid := harness.PID(t, a, al)
	exampleWorks(t, a, al, pid)
	exampleFiles(t, a)

	// The program is killed: another takes over the task.
	before := one()
	unix.Kill(before, unix.SIGKILL)
	harness.Within(t, harness.Patience, "another process of the driver", func() bool {
		now := harness.PluginProcesses(t, r.plugins, "exampledriver")
		d, _ := driverOf(a, "example")
		return len(now) == 1 && now[0] != before && d.Healthy
	})
	exampleWorks(t, a, al, pid)

	// It crashes in a loop: the task and other drivers go on.
	harness.WriteFile(t, crash, "")
	unix.Kill(one(), unix.SIGKILL)
	harness.Within(t, harness.Patience, "an unhealthy driver that names the reason", func() bool {
		d, _ := driverOf(a, "example")
		return !d.Healthy && strings.Contains(d.HealthDescription, "exit status 3") && strings.Contains(d.HealthDescription, crash)
	})
	harness.Run(t, a, harness.Job("other", `type = "batch"`,
		harness.Once+"task \"t\" {\n driver = \"raw_exec\"\n privileged = true\n config {\n command = \"/bin/true\"\n }\n}\n"))
	harness.Await(t, a, "other", "complete", 1)
	if harness.Gone(pid) {
		t.Error("the task has ended with its driver")
	}
	if err := os.Remove(crash); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "a healthy driver", func() bool { d, _ := driverOf(a, "example"); return d.Healthy })
	exampleWorks(t, a, al, pid)

	// The agent stops, and the driver with it. The next one recovers the task.
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := harness.PluginProcesses(t, r.plugins, "exampledriver"); len(left) != 0 || harness.Gone(pid) {
		t.Errorf("processes %v of the driver remain; the task has ended: %t", left, harness.Gone(pid))
	}
	b := r.agent()
	exampleWorks(t, b, harness.Await(t, b, "long", "running", 1)[0], pid)

	// The agent is killed: the kernel ends the driver.
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "the end of the driver",
		func() bool { return len(harness.PluginProcesses(t, r.plugins, "exampledriver")) == 0 })
	c := r.agent()
	al = harness.Await(t, c, "long", "running", 1)[0]
	exampleWorks(t, c, al, pid)
	if got := al.TaskStates["t"].Restarts; got != 0 {
		t.Errorf("%d restarts, want none: %v", got, harness.Events(al, "t"))
	}
	harness.Stop(t, c, "long")
	harness.Await(t, c, "long", "complete", 1)
	if text := harness.Log(c, al); !strings.HasSuffix(text, "bye\n") {
		t.Errorf("output = %q, want the last line of the task", text[max(0, len(text)-200):])
	}
	exampleEnds(t, c)
}

// exampleWorks checks signals, sessions, statistics and logs of a running task.
func exampleWorks(t *testing.T, a *cluster.Agent, al *api.AllocationListStub, pid string) {
	t.Helper()
	if harness.Gone(pid) {
		t.Fatal("the task has ended")
	}
	alloc := &api.Allocation{ID: al.ID, NodeID: al.NodeID}
	count := func() int { return strings.Count(harness.Log(a, al), "got USR1") }
	before := count()
	harness.Succeeds(t, "signal the task", func() error { return a.Client.Allocations().Signal(alloc, nil, "t", "SIGUSR1") })
	harness.Within(t, harness.Patience, "the task gets a signal, and its log goes on", func() bool { return count() > before })
	code, out, errs, err := runIn(t, a, al.ID, "t", "cat; echo $NOMAD_TASK_NAME; echo fault >&2; exit 3", strings.NewReader("input "))
	if err != nil || code != 3 || out != "input t\n" || errs != "fault\n" {
		t.Errorf("exec = %d, %q, %q, %v", code, out, errs, err)
	}
	harness.Within(t, harness.Patience, "the statistics of the task", func() bool {
		u, err := a.Client.Allocations().Stats(alloc, nil)
		return err == nil && u.Tasks["t"] != nil && u.Tasks["t"].ResourceUsage.MemoryStats.RSS > 0
	})
}

// exampleFiles checks artifacts and templates: the client confines the programs that write them,
// because an external driver cannot.
func exampleFiles(t *testing.T, a *cluster.Agent) {
	t.Helper()
	s := newArtifactServer(t, map[string][]byte{"/plain": []byte("plain\n")})
	put := func(value string) {
		t.Helper()
		v := &api.Variable{Path: "nomad/jobs/files", Items: map[string]string{"greeting": value}}
		if _, _, err := a.Client.Variables().Update(v, nil); err != nil {
			t.Fatal(err)
		}
	}
	put("ahoj")
	const page = `template {
  destination = "local/page"
  data = "{{ with nomadVar \"nomad/jobs/files\" }}{{ .greeting }}{{ end }} from {{ env \"NOMAD_TASK_NAME\" }}\n"
  change_mode = "signal"
  change_signal = "SIGUSR1"
  splay = "0s"
}
template {
  destination = "secrets/env"
  data = "FROM=a template\n"
  env = true
}`
	script := `trap 'echo again; cat local/page' USR1; cat local/plain local/page; echo env $FROM; while true; do sleep 0.1; done`
	id, _ := harness.Run(t, a, harness.Job("files", "", example(script, artifact(s.URL+"/plain"), page)))
	al := harness.Await(t, a, id, "running", 1)[0]
	const want = "plain\nahoj from t\nenv a template\n"
	harness.Within(t, harness.Patience, "the files in the task", func() bool { return harness.Log(a, al) == want })
	if ev := harness.Event(t, al, "t", api.TaskDownloadingArtifacts); ev.DisplayMessage != "Client is downloading artifacts, confined by the client, not by driver example" {
		t.Errorf("event: %s", ev.DisplayMessage)
	}
	put("bye")
	harness.Within(t, harness.Patience, "the new file in the task", func() bool { return harness.Log(a, al) == want+"again\nbye from t\n" })
	harness.Stop(t, a, id)
}

// exampleEnds checks how ends and failures of tasks are reported.
func exampleEnds(t *testing.T, a *cluster.Agent) {
	t.Helper()
	for name, tc := range map[string]struct{ script, status, code, output string }{
		"good": {"echo done", "complete", "0", "done\n"},
		"bad":  {"echo out; exit 7", "failed", "7", "out\n"},
	} {
		harness.Run(t, a, harness.Job(name, `type = "batch"`, harness.Once+example(tc.script)))
		al := harness.Await(t, a, name, tc.status, 1)[0]
		if got := harness.Event(t, al, "t", api.TaskTerminated).Details["exit_code"]; got != tc.code {
			t.Errorf("%s: exit code %s, want %s", name, got, tc.code)
		}
		if got := harness.Log(a, al); got != tc.output {
			t.Errorf("%s: output %q, want %q: it must be complete when the end is reported", name, got, tc.output)
		}
		if got := harness.Event(t, al, "t", api.TaskDriverMessage).DisplayMessage; !strings.Contains(got,
			"the example driver has started the task") {
			t.Errorf("%s: event of the driver %q", name, got)
		}
	}
	absent := strings.Replace(example(""), `"/bin/sh"`, `"/nowhere"`, 1)
	harness.Run(t, a, harness.Job("absent", `type = "batch"`, harness.Once+absent))
	al := harness.Await(t, a, "absent", "failed", 1)[0]
	if got := harness.Event(t, al, "t", api.TaskDriverFailure).DisplayMessage; !strings.Contains(got, "/nowhere") {
		t.Errorf("failure = %q", got)
	}
	// The servers accept a reference for any type; the node refuses its value.
	unknown := strings.Replace(example("true"), "args =", "args = \"${NOMAD_JOB_NAME}\" #", 1)
	harness.Run(t, a, harness.Job("unknown", `type = "batch"`, harness.Once+unknown))
	al = harness.Await(t, a, "unknown", "failed", 1)[0]
	if got := strings.Join(harness.Events(al, "t"), ", "); !strings.Contains(got, api.TaskFailedValidation) {
		t.Errorf("events = %s, want a failed validation", got)
	}
}

// TestExec2AsPlugin runs this project's exec2 as an external driver, in its sandbox.
func TestExec2AsPlugin(t *testing.T) {
	harness.NeedsSandbox(t)
	super := filepath.Join(harness.TempDir(t), "super")
	r := newPluginRig(t, fmt.Sprintf("plugin \"exec2-ext\" {\n args = [\"-name\", \"exec2-ext\", \"-dir\", %q]\n config {\n unveil_by_task = true\n }\n}\n", super))
	harness.BuildPlugin(t, r.plugins, "../../cmd/nomad-driver-exec2", "exec2-ext")
	a := r.agent()
	d, attributes := driverOf(a, "exec2-ext")
	if !d.Healthy || attributes["driver.exec2-ext.unveil.tasks"] != "true" || attributes["driver.exec2-ext.level"] != "none" {
		t.Fatalf("driver = %+v, attributes %v", d, attributes)
	}
	task := func(script string) string {
		return strings.Replace(harness.Sandboxed(harness.InShell(script), `kill_signal = "SIGTERM"`), `"exec2"`, `"exec2-ext"`, 1)
	}
	harness.Run(t, a, harness.Job("long", "",
		task(`trap 'echo got USR1' USR1; echo pid $$; echo user $(id -un); cat /etc/shadow 2>&1; n=0; while true; do echo line $n; n=$((n+1)); sleep 0.2; done`)))
	al := harness.Await(t, a, "long", "running", 1)[0]
	harness.Within(t, harness.Patience, "the output of the task", func() bool { return strings.Contains(harness.Log(a, al), "line 3") })
	text := harness.Log(a, al)
	if !strings.Contains(text, "Permission denied") && !strings.Contains(text, "No such file") || strings.Contains(text, "user root") {
		t.Errorf("output = %q, want a sandbox", text)
	}
	pluginTaskWorks(t, a, al)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	b := r.agent()
	al = harness.Await(t, b, "long", "running", 1)[0]
	pluginTaskWorks(t, b, al)
	if got := al.TaskStates["t"].Restarts; got != 0 {
		t.Errorf("%d restarts, want none: %v", got, harness.Events(al, "t"))
	}
	harness.Stop(t, b, "long")
	harness.Run(t, b, harness.Job("ends", `type = "batch"`, harness.Once+task("echo out; exit 6")))
	end := harness.Await(t, b, "ends", "failed", 1)[0]
	if got := harness.Event(t, end, "t", api.TaskTerminated).Details["exit_code"]; got != "6" || harness.Log(b, end) != "out\n" {
		t.Errorf("exit code %s, output %q", got, harness.Log(b, end))
	}
}

// pluginTaskWorks checks signals, logs and sessions of a task that prints its process ID when it can get SIGUSR1, and then
// "got USR1" for each.
func pluginTaskWorks(t *testing.T, a *cluster.Agent, al *api.AllocationListStub) {
	t.Helper()
	harness.PID(t, a, al)
	alloc := &api.Allocation{ID: al.ID, NodeID: al.NodeID}
	before := strings.Count(harness.Log(a, al), "got USR1")
	harness.Succeeds(t, "signal the task", func() error { return a.Client.Allocations().Signal(alloc, nil, "t", "SIGUSR1") })
	harness.Within(t, harness.Patience, "the signal", func() bool { return strings.Count(harness.Log(a, al), "got USR1") > before })
	code, out, _, err := runIn(t, a, al.ID, "t", "echo $NOMAD_TASK_NAME; exit 4", strings.NewReader(""))
	if err != nil || code != 4 || out != "t\n" {
		t.Errorf("exec = %d, %q, %v", code, out, err)
	}
}

// TestExec2AsPlugin_Shared runs three instances of the program with one directory: two in one agent, one in another. Each of
// them ends, with and without tasks of its own. The tasks of the others continue, and new ones start.
func TestExec2AsPlugin_Shared(t *testing.T) {
	harness.NeedsSandbox(t)
	super := filepath.Join(harness.TempDir(t), "super")
	block := func(label, more string) string {
		return fmt.Sprintf("plugin %q {\n args = [\"-name\", %q, \"-dir\", %q]\n %s\n config {\n unveil_by_task = true\n }\n}\n", label, label,
			super, more)
	}
	one := block("exec2-ext", "")
	rigs := []*pluginRig{newPluginRig(t, one+block("exec2-more", `backend = "exec2-ext"`)), newPluginRig(t, one)}
	harness.BuildPlugin(t, rigs[0].plugins, "../../cmd/nomad-driver-exec2", "exec2-ext")
	harness.BuildPlugin(t, rigs[1].plugins, "../../cmd/nomad-driver-exec2", "exec2-ext")
	long := func(driver string) string {
		return strings.Replace(harness.Sandboxed(harness.InShell(`trap 'echo got USR1' USR1; echo pid $$; while true; do sleep 0.1; done`)),
			`"exec2"`, strconv.Quote(driver), 1)
	}
	both := func() (a, b *cluster.Agent) { return rigs[0].agent(), rigs[1].agent() }
	a, b := both()
	pids := map[string]string{}
	for id, driver := range map[string]string{"ext": "exec2-ext", "more": "exec2-more"} {
		harness.Run(t, a, harness.Job(id, "", long(driver)))
		pids[id] = harness.PID(t, a, harness.Await(t, a, id, "running", 1)[0])
	}
	works := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			al := harness.Await(t, a, id, "running", 1)[0]
			pluginTaskWorks(t, a, al)
			if pid := harness.PID(t, a, al); pid != pids[id] || al.TaskStates["t"].Restarts != 0 {
				t.Errorf("%s: pid %s, was %s, %d restarts", id, pid, pids[id], al.TaskStates["t"].Restarts)
			}
		}
	}

	// The other agent ends while its task runs, comes back, and ends without one.
	harness.Run(t, b, harness.Job("other", "", long("exec2-ext")))
	pids["other"] = harness.PID(t, b, harness.Await(t, b, "other", "running", 1)[0])
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	works("ext", "more")
	b = rigs[1].agent()
	pluginTaskWorks(t, b, harness.Await(t, b, "other", "running", 1)[0])
	harness.StopAndWait(t, b, "other", 1)
	if _, _, err := b.Client.Jobs().Deregister("other", true, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	works("ext", "more")

	// One instance of the agent is removed from its configuration: the task of the other is recovered.
	harness.StopAndWait(t, a, "more", 1)
	if _, _, err := a.Client.Jobs().Deregister("more", true, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(rigs[0].options.Dir, "plugins.hcl"), fmt.Sprintf("plugin_dir = %q\n%s", rigs[0].plugins, one))
	a, b = both()
	works("ext")

	// The agent ends without tasks: the idle instance of the other agent can start tasks.
	harness.StopAndWait(t, a, "ext", 1)
	if _, _, err := a.Client.Jobs().Deregister("ext", true, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, b, harness.Job("later", "", long("exec2-ext")))
	later := harness.Await(t, b, "later", "running", 1)[0]
	pluginTaskWorks(t, b, later)
	a = rigs[0].agent()
	harness.Run(t, a, harness.Job("again", "", long("exec2-ext")))
	pluginTaskWorks(t, a, harness.Await(t, a, "again", "running", 1)[0])
	pluginTaskWorks(t, b, later)
}
