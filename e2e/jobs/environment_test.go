package jobs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A task gets its payload, environment, tokens, user and log files.
func TestWhatTasksGet(t *testing.T) {
	a := harness.DevAgent(t)
	for name, test := range map[string]func(*testing.T, *cluster.Agent){
		"dispatch":     dispatched,
		"environment":  environmentOf,
		"identities":   identitiesRenewed,
		"user":         runsAsUser,
		"log rotation": logsRotate,
		"signal":       signalled,
		"mock":         mockDriver,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

func dispatched(t *testing.T, a *cluster.Agent) {
	id, eval := harness.Run(t, a, harness.Job("work",
		"type = \"batch\"\nparameterized {\n payload = \"required\"\n meta_required = [\"who\"]\n meta_optional = [\"why\"]\n}",
		harness.Once+harness.Shell("cat $NOMAD_TASK_DIR/in.txt; env", "dispatch_payload {\n file = \"in.txt\"\n}")))
	if eval != "" {
		t.Errorf("a parameterized job was evaluated: %s", eval)
	}
	meta := map[string]string{"who": "world"}
	resp, _, err := a.Client.Jobs().Dispatch(id, meta, []byte("the payload\n"), "", nil)
	if err != nil {
		t.Fatalf("Dispatch() = %v", err)
	}
	if !strings.HasPrefix(resp.DispatchedJobID, "work/dispatch-") {
		t.Errorf("dispatched as %q", resp.DispatchedJobID)
	}
	al := harness.Await(t, a, resp.DispatchedJobID, "complete", 1)[0]
	if text := harness.Log(a, al); !strings.HasPrefix(text, "the payload\n") {
		t.Errorf("the task read %q", text)
	}
	for what, payload := range map[string]func() ([]byte, error){
		"job": func() ([]byte, error) {
			j, _, err := a.Client.Jobs().Info(resp.DispatchedJobID, nil)
			return j.Payload, err
		},
		"allocation": func() ([]byte, error) {
			one, _, err := a.Client.Allocations().Info(al.ID, nil)
			return one.Job.Payload, err
		},
	} {
		if got, err := payload(); err != nil || string(got) != "the payload\n" {
			t.Errorf("the payload of the %s is %q, %v", what, got, err)
		}
	}
	env := environment(t, a, al)
	wantEnv(t, env, map[string]string{"NOMAD_META_who": "world", "NOMAD_META_WHO": "world", "NOMAD_META_why": "",
		"NOMAD_JOB_PARENT_ID": "work", "NOMAD_JOB_ID": resp.DispatchedJobID})

	again, _, err := a.Client.Jobs().DispatchOpts(&api.DispatchOptions{JobID: id, Meta: meta, Payload: []byte("x")},
		&api.WriteOptions{IdempotencyToken: "one"})
	if err != nil {
		t.Fatal(err)
	}
	same, _, err := a.Client.Jobs().DispatchOpts(&api.DispatchOptions{JobID: id, Meta: meta, Payload: []byte("x")},
		&api.WriteOptions{IdempotencyToken: "one"})
	if err != nil || same.DispatchedJobID != again.DispatchedJobID {
		t.Errorf("dispatched again with the same token as %v, %v, want %s", same, err, again.DispatchedJobID)
	}
	for what, try := range map[string]struct {
		meta    map[string]string
		payload string
	}{"no payload": {meta, ""}, "no meta": {nil, "x"}, "unknown meta": {map[string]string{"who": "x", "else": "y"}, "x"},
		"large": {meta, strings.Repeat("x", 17<<10)}} {
		if _, _, err := a.Client.Jobs().Dispatch(id, try.meta, []byte(try.payload), "", nil); harness.StatusCode(err) != 400 {
			t.Errorf("Dispatch(%s) = %v, want 400", what, err)
		}
	}
	if err := childOf(t, a, id, resp.DispatchedJobID); err != nil {
		t.Error(err)
	}
}

// childOf checks that a list by prefix contains the child, with its parent.
func childOf(t *testing.T, a *cluster.Agent, parent, child string) error {
	jobs, _, err := a.Client.Jobs().PrefixList(parent + "/")
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.ID == child && j.ParentID == parent {
			return nil
		}
	}
	return fmt.Errorf("no child %s of %s in %v", child, parent, jobs)
}

func environmentOf(t *testing.T, a *cluster.Agent) {
	head := "namespace = \"default\"\nmeta {\n job-key = \"j\"\n over = \"job\"\n}"
	group := "meta {\n over = \"group\"\n}\n" + strings.Replace(harness.Shell("env; exec sleep 3600", "meta {\n over = \"task\"\n}",
		"env {\n OWN = \"${NOMAD_TASK_NAME} on ${node.datacenter}, $${NOMAD_JOB_ID}\"\n NOMAD_REGION = \"mine\"\n}"),
		"memory = 10", "memory = 10\n memory_max = 20", 1)
	id, _ := harness.Run(t, a, harness.Job("environ", head, group))
	al := harness.Await(t, a, id, "running", 1)[0]
	env := environment(t, a, al)
	dir := filepath.Dir(env["NOMAD_ALLOC_DIR"])
	wantEnv(t, env, map[string]string{
		"NOMAD_ALLOC_DIR": dir + "/alloc", "NOMAD_TASK_DIR": dir + "/t/local", "NOMAD_SECRETS_DIR": dir + "/t/secrets",
		"NOMAD_MEMORY_LIMIT": "10", "NOMAD_CPU_LIMIT": "10", "NOMAD_CPU_CORES": " ",
		"NOMAD_ALLOC_ID": al.ID, "NOMAD_SHORT_ALLOC_ID": al.ID[:8], "NOMAD_ALLOC_NAME": "environ.g[0]", "NOMAD_ALLOC_INDEX": "0",
		"NOMAD_TASK_NAME": "t", "NOMAD_GROUP_NAME": "g", "NOMAD_JOB_ID": "environ", "NOMAD_JOB_NAME": "environ", "NOMAD_DC": "dc1",
		"NOMAD_PARENT_CGROUP": "nomad.slice", "NOMAD_NAMESPACE": "default",
		"NOMAD_META_job_key": "j", "NOMAD_META_JOB_KEY": "j", "NOMAD_META_over": "task", "NOMAD_META_OVER": "task",
		"OWN": "t on dc1, environ",
	})
	if _, ok := env["NOMAD_JOB_PARENT_ID"]; ok {
		t.Error("NOMAD_JOB_PARENT_ID is set for a job without a parent")
	}
	if _, ok := env["NOMAD_TOKEN"]; ok {
		t.Error("NOMAD_TOKEN is set for a task that did not ask")
	}
	harness.Stop(t, a, id)
}

// identitiesRenewed notifies the task with a signal that is ignored before the trap is set.
func identitiesRenewed(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("tokens", "",
		harness.Shell(`trap 'echo signalled' URG; echo $NOMAD_TOKEN_aws > $NOMAD_ALLOC_DIR/data/env; echo ready; last=""; while true; do now=$(cat $NOMAD_SECRETS_DIR/nomad_aws.jwt); if [ "$now" != "$last" ]; then echo token $now; last=$now; fi; sleep 0.05; done`,
			"identity {\n name = \"aws\"\n aud = [\"sts.amazonaws.com\"]\n env = true\n file = true\n ttl = \"5s\"\n change_mode = \"signal\"\n change_signal = \"SIGURG\"\n}",
			"identity {\n name = \"other\"\n aud = [\"x\"]\n file = true\n filepath = \"local/deep/other.jwt\"\n}")))
	al := harness.Await(t, a, id, "running", 1)[0]
	var tokens []string
	harness.Within(t, harness.Patience, "two renewals, each with a signal", func() bool {
		text := harness.Log(a, al)
		tokens = nil
		for line := range strings.Lines(text) {
			if token, ok := strings.CutPrefix(line, "token "); ok {
				tokens = append(tokens, strings.TrimSpace(token))
			}
		}
		return len(tokens) >= 3 && strings.Count(text, "signalled") >= 2
	})
	slices.Sort(tokens)
	if len(slices.Compact(tokens)) < 3 {
		t.Errorf("the renewed tokens are not new")
	}
	for _, token := range tokens {
		if strings.Count(token, ".") != 2 {
			t.Errorf("a file held %q, which is no token", token)
		}
	}
	if env := harness.SharedFile(t, a, al, "env"); strings.Count(env, ".") != 2 {
		t.Errorf("NOMAD_TOKEN_aws was %q", env)
	}
	if n := harness.Await(t, a, id, "running", 1)[0].TaskStates["t"].Restarts; n != 0 {
		t.Errorf("%d restarts, want none", n)
	}
	in, err := a.Client.AllocFS().Cat(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, "t/local/deep/other.jwt", nil)
	if err != nil {
		t.Fatalf("the token at its own path: %v", err)
	}
	in.Close()
	harness.Stop(t, a, id)
}

func runsAsUser(t *testing.T, a *cluster.Agent) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	id, _ := harness.Run(t, a, harness.Job("user", `type = "batch"`,
		harness.Once+harness.Shell("id -un; id -gn; echo x > $NOMAD_TASK_DIR/own && echo $HOME", `user = "nobody"`)))
	al := harness.Await(t, a, id, "complete", 1)[0]
	if words := strings.Fields(harness.Log(a, al)); len(words) < 3 || words[0] != "nobody" || words[1] != "nogroup" {
		t.Errorf("the task ran as %v, want nobody nogroup", words)
	}
	id, _ = harness.Run(t, a, harness.Job("no-user", `type = "batch"`, harness.Once+harness.Shell("id -un", `user = "no-such-user"`)))
	al = harness.Await(t, a, id, "failed", 1)[0]
	all := ""
	for _, ev := range al.TaskStates["t"].Events {
		all += ev.DisplayMessage + "\n"
	}
	if !strings.Contains(all, "no-such-user") {
		t.Errorf("no event names the unknown user:\n%s", all)
	}
}

func logsRotate(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("logs", `type = "batch"`,
		harness.Once+harness.Shell("i=0; while [ $i -lt 40000 ]; do echo $i: 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789; i=$((i+1)); done",
			"logs {\n max_files = 2\n max_file_size = 1\n}")))
	al := harness.Await(t, a, id, "complete", 1)[0]
	ref := &api.Allocation{ID: al.ID, NodeID: al.NodeID}
	files, _, err := a.Client.AllocFS().List(ref, "alloc/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, f := range files {
		if strings.HasPrefix(f.Name, "t.stdout") {
			sizes[f.Name] = f.Size
		}
	}
	if len(sizes) != 2 {
		t.Errorf("log files %v, want two", slices.Collect(maps.Keys(sizes)))
	}
	for name, size := range sizes {
		if size > 1<<20 {
			t.Errorf("%s has %d bytes, want at most 1 MiB", name, size)
		}
	}
	text := readLogs(t, a, ref, "start")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "39999:") {
		t.Errorf("the last line is %q", last)
	}
	for i, line := range lines[1 : len(lines)-1] {
		var n int
		fmt.Sscanf(line, "%d:", &n)
		if want := 40000 - (len(lines) - 1) + i; n != want {
			t.Fatalf("line %d is %q, want %d", i, line, want)
		}
	}
}

// readLogs returns a task's output from the logs route, without following.
func readLogs(t *testing.T, a *cluster.Agent, al *api.Allocation, origin string) string {
	t.Helper()
	resp, text := harness.Get(t, a, fmt.Sprintf("/v1/client/fs/logs/%s?task=t&type=stdout&plain=true&origin=%s", al.ID, origin))
	if resp.StatusCode != 200 {
		t.Fatalf("logs: %s: %s", resp.Status, text)
	}
	return text
}

func signalled(t *testing.T, a *cluster.Agent) {
	id, _ := harness.Run(t, a, harness.Job("signal", "", harness.Shell("trap 'echo hup' HUP; echo ready; while true; do sleep 0.05; done",
		`kill_timeout = "100ms"`)))
	al := harness.Await(t, a, id, "running", 1)[0]
	harness.WaitLog(t, a, al)
	ref := &api.Allocation{ID: al.ID, NodeID: al.NodeID}
	if err := a.Client.Allocations().Signal(ref, nil, "", "SIGHUP"); err != nil {
		t.Fatalf("Signal() = %v", err)
	}
	harness.Within(t, harness.Patience, "the signal arrives", func() bool { return strings.Contains(harness.Log(a, al), "hup") })
	harness.Within(t, harness.Patience, "the signal event", func() bool {
		return slices.Contains(harness.Events(harness.Await(t, a, id, "running", 1)[0], "t"), api.TaskSignaling)
	})
	for _, bad := range []string{"SIGNOTHING", "", "99x"} {
		if err := a.Client.Allocations().Signal(ref, nil, "t", bad); harness.StatusCode(err) != 400 {
			t.Errorf("Signal(%q) = %v, want 400", bad, err)
		}
	}
	harness.Stop(t, a, id)
}

func mockDriver(t *testing.T, a *cluster.Agent) {
	for _, c := range []struct{ name, config, status, kind, key, want string }{
		{"exit", "run_for = \"1ms\"\n exit_code = 9", "failed", api.TaskTerminated, "exit_code", "9"},
		{"signal", "run_for = \"1ms\"\n exit_signal = 11", "failed", api.TaskTerminated, "signal", "11"},
		{"oom", "run_for = \"1ms\"\n exit_code = 137\n oom_killed = true", "failed", api.TaskTerminated, "oom_killed", "true"},
		{"start error", "start_error = \"no way\"", "failed", api.TaskDriverFailure, "driver_error", "no way"},
		{"well", "run_for = \"1ms\"\n stdout_string = \"hello\"", "complete", api.TaskTerminated, "exit_code", "0"},
	} {
		id, _ := harness.Run(t, a, harness.Job("mock-"+strings.ReplaceAll(c.name, " ", "-"), `type = "batch"`,
			harness.Once+strings.Replace(harness.SmallTask, `run_for = "1h"`, c.config, 1)))
		al := harness.Await(t, a, id, c.status, 1)[0]
		if got := harness.Event(t, al, "t", c.kind).Details[c.key]; !strings.Contains(got, c.want) {
			t.Errorf("%s: %s = %q, want %q", c.name, c.key, got, c.want)
		}
	}
}
