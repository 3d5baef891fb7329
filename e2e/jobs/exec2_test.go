package jobs_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Test scenarios of the external exec2 driver of Nomad 2.0.
func TestExec2Scenarios(t *testing.T) {
	a, _ := harness.Exec2Agent(t, `unveil_by_task = true`)
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	if _, _, err := a.Client.Operator().SchedulerSetConfiguration(&api.SchedulerConfiguration{MemoryOversubscriptionEnabled: true},
		nil); err != nil {
		t.Fatal(err)
	}
	nodes, _, err := a.Client.Nodes().List(nil)
	if err != nil || len(nodes) != 1 || !nodes[0].Drivers["exec2"].Healthy {
		t.Fatalf("nodes = %+v, %v, want one with a healthy exec2", nodes, err)
	}
	for name, test := range map[string]func(*testing.T, *cluster.Agent){
		"ends": scenarioEnds, "sleep": scenarioSleep, "ignore": scenarioIgnore, "resources": scenarioResources,
		"secret": scenarioSecret, "oom score": scenarioOOMScore, "http": scenarioHTTP, "interpolated": scenarioInterpolated,
		"small": scenarioSmall, "calls": scenarioCalls,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

// scenarioEnds runs tasks that end by themselves and checks allocation status, exit code and
// output.
func scenarioEnds(t *testing.T, a *cluster.Agent) {
	for _, tc := range []struct {
		name, config, status string
		code                 int
		output               string
	}{
		{"env", `command = "env"`, "complete", 0, `(?m)^USER=nomad-8\d{4}$`},
		{"env-short-id", `command = "env"`, "complete", 0, `(?m)^NOMAD_SHORT_ALLOC_ID=[0-9a-f]{8}$`},
		{"mktemp", `command = "mktemp"`, "complete", 0, `/t/tmp/tmp\.`},
		{"passwd", "command = \"cat\"\nargs = [\"/etc/passwd\"]", "failed", 1, `^$`},
		{"cgroup", "command = \"cat\"\nargs = [\"/proc/self/cgroup\"]\nunveil = [\"r:/proc\"]", "complete", 0,
			`/nomad\.slice/share\.slice/[0-9a-f-]{36}\.t\.scope`},
		{"exit7", harness.InShell("exit 7"), "failed", 7, `^$`},
		{"killed", harness.InShell("kill -TERM $$; sleep 10"), "failed", 143, `^$`},
		{"missing", `command = "no-such-program"`, "failed", 127, `^$`},
	} {
		id, _ := harness.Run(t, a, harness.Job(tc.name, `type = "batch"`, harness.Once+harness.Sandboxed(tc.config)))
		al := harness.Await(t, a, id, tc.status, 1)[0]
		if text := harness.Log(a, al); !regexp.MustCompile(tc.output).MatchString(text) {
			t.Errorf("%s: output %q, want %s", tc.name, text, tc.output)
		}
		ended := harness.Event(t, al, "t", api.TaskTerminated)
		if got := ended.Details["exit_code"]; got != strconv.Itoa(tc.code) {
			t.Errorf("%s: exit code %s, want %d", tc.name, got, tc.code)
		}
	}
}

func scenarioSleep(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("sleep", "", harness.Sandboxed("command = \"sleep\"\nargs = [\"infinity\"]")))
	harness.Await(t, a, id, "running", 1)
	harness.StopAndWait(t, a, id, 1)
	harness.Within(t, harness.Patience, "the job is dead and stopped", func() bool { // with its last evaluation
		j, _, err := a.Client.Jobs().Info(id, nil)
		return err == nil && *j.Status == "dead" && *j.Stop
	})
}

// scenarioIgnore stops a task that ignores its signal.
func scenarioIgnore(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("ignore", "",
		harness.Sandboxed(harness.InShell("trap '' INT; echo up; while :; do sleep 0.1; done"),
			"kill_timeout = \"300ms\"\nkill_signal = \"SIGINT\"")))
	al := harness.Await(t, a, id, "running", 1)[0]
	harness.Within(t, harness.Patience, "the trap is set", func() bool { return harness.Log(a, al) == "up\n" })
	harness.StopAndWait(t, a, id, 1)
	al = harness.Await(t, a, id, "complete", 1)[0]
	if got := harness.Event(t, al, "t", api.TaskTerminated).Details["signal"]; got != "9" {
		t.Errorf("ended by signal %s, want 9", got)
	}
}

// scenarioResources reads the limits from within the task.
func scenarioResources(t *testing.T, a *cluster.Agent) {
	v1, v2 := `g=$(grep :memory: /proc/self/cgroup | cut -d: -f3); cat /sys/fs/cgroup/memory$g/memory.limit_in_bytes /sys/fs/cgroup/memory$g/memory.soft_limit_in_bytes; g=$(grep :cpu, /proc/self/cgroup | cut -d: -f3); test $g || g=$(grep :cpu: /proc/self/cgroup | cut -d: -f3); cat /sys/fs/cgroup/cpu$g/cpu.cfs_quota_us`,
		`g=$(cut -d: -f3 /proc/self/cgroup); cat /sys/fs/cgroup$g/memory.max /sys/fs/cgroup$g/memory.low; cut -d' ' -f1 /sys/fs/cgroup$g/cpu.max`
	script, soft, none := v2, "0", "max"
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
		script, soft, none = v1, `\d+`, `9223372036854771712`
	}
	for name, tc := range map[string]struct{ resources, output string }{
		"memory":        {"cpu = 1000\nmemory = 200", "^209715200\n" + soft + "\n\\d{4,}\n$"},
		"memory-max":    {"cpu = 1000\nmemory = 150\nmemory_max = 250", "^262144000\n157286400\n\\d{4,}\n$"},
		"no-hard-limit": {"cpu = 1000\nmemory = 150\nmemory_max = -1", "^" + none + "\n157286400\n\\d{4,}\n$"},
		"tiny-share":    {"cpu = 1\nmemory = 64", "^67108864\n" + soft + "\n1000\n$"},
		"cores":         {"cores = 1\nmemory = 64", "^67108864\n" + soft + "\n\\d{4,}\n$"},
	} {
		id, _ := harness.Run(t, a, harness.Job(name, `type = "batch"`,
			harness.Once+harness.Sandboxed(harness.InShell(script)+"\nunveil = [\"r:/proc\", \"r:/sys/fs/cgroup\"]",
				"resources {\n "+tc.resources+"\n }")))
		if text := harness.Log(a, harness.Await(t, a, id, "complete", 1)[0]); !regexp.MustCompile(tc.output).MatchString(text) {
			t.Errorf("%s: limits %q, want %s", name, text, tc.output)
		}
	}
}

func scenarioSecret(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("secret", `type = "batch"`,
		harness.Once+harness.Sandboxed(harness.InShell("cat $NOMAD_SECRETS_DIR/nomad_token; env"), "identity {\n env = false\n file = true\n }")))
	text := harness.Log(a, harness.Await(t, a, id, "complete", 1)[0])
	if !strings.HasPrefix(text, "eyJ") || strings.Contains(text, "NOMAD_TOKEN=") {
		t.Errorf("output %.40q, want a token from the file and none in the environment", text)
	}
}

func scenarioOOMScore(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("oom-score", `type = "batch"`,
		harness.Once+harness.Sandboxed("command = \"cat\"\nargs = [\"/proc/self/oom_score_adj\"]\nunveil = [\"r:/proc\"]\noom_score_adj = 500")))
	if text := harness.Log(a, harness.Await(t, a, id, "complete", 1)[0]); text != "500\n" {
		t.Errorf("score %q, want 500", text)
	}
}

// serve answers one HTTP request with a file of its task directory.
const serve = `use IO::Socket; my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ENV{NOMAD_PORT_http}, Listen => 5, ReuseAddr => 1) or die $!; print "up\n"; $| = 1;
while (my $c = $l->accept) { while (my $h = <$c>) { last if $h =~ /^\r?$/ } open(my $f, "<", "$ENV{NOMAD_TASK_DIR}/page") or die $!; print $c "HTTP/1.0 200 OK\r\n\r\n" . join("", <$f>); close $c }`

// scenarioHTTP listens on the allocated port; other ports are denied.
func scenarioHTTP(t *testing.T, a *cluster.Agent) {
	if _, err := os.Stat("/usr/bin/perl"); err != nil {
		t.Skip("needs perl")
	}
	group := "network {\n port \"http\" {}\n }\n" +
		harness.Sandboxed(harness.InShell("echo hello > $NOMAD_TASK_DIR/page; exec perl -e '"+serve+"'")+
			"\nnetwork {\n bind = [\"${NOMAD_PORT_http}\"]\n }")
	id, _ := harness.Run(t, a, harness.Job("http", "", group))
	al := harness.Await(t, a, id, "running", 1)[0]
	info, _, err := a.Client.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/", info.AllocatedResources.Shared.Ports[0].Value)
	harness.Within(t, harness.Patience, "the page", func() bool { return page(url) == "hello\n" })
	harness.StopAndWait(t, a, id, 1)
}

// scenarioInterpolated uses references in paths; they are checked after interpolation.
func scenarioInterpolated(t *testing.T, a *cluster.Agent) {
	outside := filepath.Join(a.Dir, "outside")
	harness.WriteFile(t, outside, "outside\n")
	if err := os.Chmod(outside, 0o644); err != nil {
		t.Fatal(err)
	}
	meta := fmt.Sprintf("meta {\n path = %q\n modes = \"q\"\n rel = \"etc\"\n }", outside)
	for name, tc := range map[string]struct{ unveil, status, want string }{
		"good":     {"r:${NOMAD_META_path}", "complete", "outside\n"},
		"mode":     {"${NOMAD_META_modes}:/etc", "failed", `unveil: "q:/etc": modes "q"`},
		"relative": {"r:${NOMAD_META_rel}", "failed", `unveil: "r:etc": the path is relative`},
	} {
		id, _ := harness.Run(t, a, harness.Job("interpolated-"+name, `type = "batch"`,
			harness.Once+harness.Sandboxed("command = \"cat\"\nargs = [\"${NOMAD_META_path}\"]\nunveil = [\""+tc.unveil+"\"]", meta)))
		al := harness.Await(t, a, id, tc.status, 1)[0]
		if tc.status == "complete" {
			if text := harness.Log(a, al); text != tc.want {
				t.Errorf("%s: output %q, want %q", name, text, tc.want)
			}
			continue
		}
		if got := harness.Event(t, al, "t", api.TaskDriverFailure).DisplayMessage; !strings.Contains(got, tc.want) {
			t.Errorf("%s: event %q, want %q", name, got, tc.want)
		}
	}
}

// scenarioCalls has functions in the config of a driver compute with what only the node has.
func scenarioCalls(t *testing.T, a *cluster.Agent) {
	const args = `command = "/bin/echo"
args = concat(["-n", upper(node.unique.name)], ["${element(split("-", NOMAD_JOB_NAME), 1)}.${NOMAD_TASK_NAME}"])`
	id, _ := harness.Run(t, a, harness.Job("calls-42", `type = "batch"`, harness.Once+harness.Sandboxed(args)))
	al := harness.Await(t, a, id, "complete", 1)[0]
	if want := strings.ToUpper(al.NodeName) + " 42.t"; harness.Log(a, al) != want {
		t.Errorf("output %q, want %q", harness.Log(a, al), want)
	}
	id, _ = harness.Run(t, a, harness.Job("calls-bad", `type = "batch"`,
		harness.Once+harness.Sandboxed("command = \"/bin/echo\"\nargs = [upper(meta.none)]")))
	got := harness.Event(t, harness.Await(t, a, id, "failed", 1)[0], "t", api.TaskFailedValidation)
	if text := got.DisplayMessage + got.ValidationError; !strings.Contains(text, "${upper(meta.none)}: no value for ${meta.none}") {
		t.Errorf("event %q, want the reference", text)
	}
}

// scenarioSmall gives tasks with templates 10 MiB of memory. A template that needs too much fails with the reason. One that
// is rendered again while the task runs shares the memory of the task, which runs on whatever becomes of the program.
func scenarioSmall(t *testing.T, a *cluster.Agent) {
	put := func(value string) {
		t.Helper()
		v := &api.Variable{Path: "nomad/jobs/small", Items: map[string]string{"v": value}}
		harness.Succeeds(t, "write the variable", func() error { _, _, err := a.Client.Variables().Update(v, nil); return err })
	}
	template := func(text string) string {
		return fmt.Sprintf("template {\n destination = \"local/x\"\n change_mode = \"noop\"\n data = %q\n}\nresources {\n cpu = 50\n memory = 10\n}", text)
	}
	hungry := "{{ range loop 2000000 }}" + strings.Repeat("x", 100) + "{{ end }}"
	id, _ := harness.Run(t, a, harness.Job("hungry", `type = "batch"`,
		harness.Once+harness.Sandboxed(harness.InShell("true"), template(hungry))))
	const want = `destination "local/x": the evaluation needs more than 56 MiB of memory, which is what the memory of the task allows: increase memory`
	if got := harness.Event(t, harness.Await(t, a, id, "failed", 1)[0], "t", api.TaskKilling).DisplayMessage; !strings.Contains(got, want) {
		t.Errorf("event %q, want %q", got, want)
	}

	put("few")
	watching := `{{ with nomadVar "nomad/jobs/small" }}{{ if eq (print .v) "many" }}` + hungry + `{{ end }}value {{ .v }}{{ end }}`
	id, _ = harness.Run(t, a, harness.Job("small", "",
		harness.Sandboxed(harness.InShell("while true; do cat local/x; echo; sleep 0.5; done"), template(watching))))
	al := harness.Await(t, a, id, "running", 1)[0]
	harness.Within(t, harness.Patience, "the first render", func() bool { return strings.Contains(harness.Log(a, al), "value few\n") })
	put("many")
	harness.Within(t, harness.Patience, "the program has no memory left", func() bool {
		return slices.ContainsFunc(harness.Await(t, a, id, "running", 1)[0].TaskStates["t"].Events, func(e *api.TaskEvent) bool {
			return strings.Contains(e.DisplayMessage, "needs more memory than the task may use: increase memory")
		})
	})
	put("again")
	harness.Within(t, harness.Patience, "the next render", func() bool { return strings.Contains(harness.Log(a, al), "value again\n") })
	if al = harness.Await(t, a, id, "running", 1)[0]; al.TaskStates["t"].Restarts != 0 {
		t.Errorf("%d restarts: %v", al.TaskStates["t"].Restarts, harness.Events(al, "t"))
	}
}

// TestExec2BadInput checks how faulty jobs fail. The servers reject what they can check. What only
// the node can check becomes a task event that names the option. A job that another node could run
// waits.
func TestExec2BadInput(t *testing.T) {
	a, data := harness.Exec2Agent(t, "pids_limit = 100\npids_limit_max = 200")
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	for _, tc := range []struct{ config, want string }{
		{`unveil = ["rq:/etc"]`, `config of exec2: unveil: "rq:/etc": modes "rq"`},
		{`unveil = ["r:etc"]`, "the path is relative"},
		{`unveil = ["x:/opt/tool"]`, `write "rx:/opt/tool"`},
		{`pids_limit = 0`, "pids_limit: 0 is below 1"},
		{`require_abi = -1`, "require_abi: -1 is below 1"},
		{"ulimit {\n nofile = \"many\"\n }", `ulimit: nofile: "many"`},
		{"ulimit {\n files = \"3\"\n }", `"files" is not a limit`},
		{"network {\n bind = [70000]\n }", "network: bind: 70000 is not a port"},
		{`unveils = ["r:/etc"]`, `unknown argument "unveils"`},
	} {
		j, err := a.Client.Jobs().ParseHCL(harness.Job("bad", "", harness.Sandboxed("command = \"true\"\n"+tc.config)), true)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = a.Client.Jobs().Register(j, nil)
		if harness.StatusCode(err) != 400 || !strings.Contains(err.Error(), tc.want) ||
			!strings.Contains(err.Error(), `job "bad", group "g", task "t": `) {
			t.Errorf("%s: Register() = %v, want 400 with %s", tc.config, err, tc.want)
		}
	}
	for name, tc := range map[string]struct{ config, extra, want string }{
		"unveil": {`unveil = ["r:/etc"]`, "", "task set unveil paths but driver config does not allow this (unveil_by_task)"},
		"root":   {"", `user = "root"`, "user: root is root, which this node's driver config does not allow (allow_root)"},
		"pids":   {`pids_limit = 201`, "", "pids_limit: 201 is above the 200"},
		"work":   {`work_dir = "/etc"`, "", "work_dir"},
		"ulimit": {"ulimit {\n nofile = \"unlimited\"\n }", "", "ulimit: nofile: unlimited is above the agent's own hard limit"},
	} {
		id, _ := harness.Run(t, a, harness.Job(name, `type = "batch"`,
			harness.Once+harness.Sandboxed("command = \"true\"\n"+tc.config, tc.extra)))
		al := harness.Await(t, a, id, "failed", 1)[0]
		if got := harness.Event(t, al, "t", api.TaskDriverFailure).DisplayMessage; !strings.Contains(got, tc.want) {
			t.Errorf("%s: event %q, want %q", name, got, tc.want)
		}
	}
	id, eval := harness.Run(t, a, harness.Job("newer", `type = "batch"`, harness.Sandboxed("command = \"true\"\nrequire_abi = 99")))
	if ev := harness.Evaluated(t, a, eval); ev.FailedTGAllocs["g"] == nil ||
		ev.FailedTGAllocs["g"].ConstraintFiltered["${attr.driver.exec2.landlock.abi} >= 99"] != 1 {
		t.Errorf("evaluation of %s = %+v, want the node filtered for its Landlock", id, ev)
	}
	if left, err := filepath.Glob(filepath.Join(data, "alloc", "*", "t", "local", "*")); err != nil || len(left) > 0 {
		t.Errorf("a rejected task ran: %v, %v", left, err)
	}
}

// TestExec2Recover kills an agent with sandboxed tasks and restarts it.
func TestExec2Recover(t *testing.T) {
	a, _ := harness.Exec2Agent(t, "unveil_by_task = true")
	gate := filepath.Join(a.Dir, "gate")
	script := fmt.Sprintf("echo $USER; while [ ! -e %s ]; do sleep 0.02; done; echo late; exit 6", gate)
	id, _ := harness.Run(t, a, harness.Job("stays", `type = "batch"`,
		harness.Once+harness.Sandboxed(harness.InShell(script)+fmt.Sprintf("\nunveil = [\"r:%s\"]", a.Dir))))
	before := harness.Await(t, a, id, "running", 1)[0]
	harness.Within(t, harness.Patience, "the task runs", func() bool { return strings.HasPrefix(harness.Log(a, before), "nomad-") })
	output := harness.Log(a, before)
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	b := harness.Start(t, a.Options)
	t.Cleanup(func() { harness.PurgeAll(t, b) })
	after := harness.Await(t, b, id, "running", 1)[0]
	if after.ID != before.ID || after.TaskStates["t"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts, want %s with none", after.ID, after.TaskStates["t"].Restarts, before.ID)
	}
	harness.WriteFile(t, gate, "")
	al := harness.Await(t, b, id, "failed", 1)[0]
	if text, code := harness.Log(b, al), harness.Event(t, al, "t", api.TaskTerminated).Details["exit_code"]; text != output+"late\n" ||
		code != "6" {
		t.Errorf("output %q and exit code %s, want the lines before and after, and 6", text, code)
	}
	// Its UID is not assigned again while its files exist.
	other, _ := harness.Run(t, b, harness.Job("other", `type = "batch"`, harness.Once+harness.Sandboxed(`command = "env"`)))
	if user := environment(t, b, harness.Await(t, b, other, "complete", 1)[0])["USER"]; user+"\n" == output {
		t.Errorf("the next task has the user %s of one whose files are still there", user)
	}
}

// page returns the body of a page, or "" after an error.
func page(url string) string {
	c := http.Client{Timeout: time.Second}
	resp, err := c.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}
