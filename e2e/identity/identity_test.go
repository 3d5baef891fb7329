package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

const readEvery = 50 * time.Millisecond

// holdToken is a task that repeatedly reads its token file until another file exists, and reports
// each moment without a valid token.
func holdToken(args []string) int {
	reads, tokens, last, least := 0, 0, "", time.Hour
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for ; ; <-tick.C {
		if _, err := os.Stat(args[1]); err == nil {
			break
		}
		now := time.Now() // on a busy machine the file may be older after the read
		text, err := os.ReadFile(filepath.Join(os.Getenv("NOMAD_SECRETS_DIR"), args[0]))
		if err != nil {
			fmt.Println("bad:", err)
			continue
		}
		reads++
		left, err := lifeOf(string(text), now)
		if err != nil {
			fmt.Println("bad:", err)
		}
		if least = min(least, left); string(text) != last {
			tokens++
		}
		last = string(text)
	}
	fmt.Printf("held: %d reads, %d tokens, %v left at least\n", reads, tokens, least.Round(time.Millisecond))
	return 0
}

// lifeOf returns the remaining lifetime of a token. An expired or incomplete one is an error.
func lifeOf(token string, now time.Time) (time.Duration, error) {
	claims, err := payloadOf(token)
	if err != nil {
		return 0, err
	}
	exp, _ := claims["exp"].(float64)
	left := time.Unix(int64(exp), 0).Sub(now)
	if left <= 0 {
		return left, fmt.Errorf("the token expired %v ago", -left)
	}
	return left, nil
}

// payloadOf decodes the payload of a token without verification.
func payloadOf(token string) (map[string]any, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(parts[2]) < 40 {
		return nil, fmt.Errorf("a token of %d bytes is incomplete", len(token))
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	var claims map[string]any
	return claims, json.Unmarshal(text, &claims)
}

// rawClient starts a client that runs raw_exec tasks.
func rawClient(t *testing.T, servers ...*cluster.Agent) *cluster.Agent {
	t.Helper()
	dir := filepath.Join(harness.TempDir(t), "client")
	cfg := filepath.Join(harness.TempDir(t), "raw.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", s.RPC))
	}
	return harness.StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg,
			"-servers=" + strings.Join(addrs, ",")}})
}

// rawTask returns a job whose task has identities.
func rawTask(id string, ids []*api.WorkloadIdentity, command string, args ...string) *api.Job {
	job := harness.OneTask(id, command, args...)
	job.TaskGroups[0].Tasks[0].Driver, job.TaskGroups[0].Tasks[0].Identities = "raw_exec", ids
	return job
}

// secretsOf returns the secrets directory of the only task of an allocation.
func secretsOf(a *cluster.Agent, al *api.AllocationListStub) string {
	return filepath.Join(a.Dir, "data", "alloc", al.ID, "t", "secrets")
}

// renewed waits until a token file has changed.
func renewed(t *testing.T, name string) {
	t.Helper()
	before := harness.Content(t, name)
	harness.Within(t, harness.Patience, "a new token in "+name, func() bool { return harness.Content(t, name) != before })
}

// A task that constantly reads its token never finds an expired or partial one, not even while its
// agent or leaders are killed and restarted.
func TestTokenFileIsNeverOld(t *testing.T) {
	s := harness.StartServers(t)
	cl := rawClient(t, s.All...)
	defer func() { harness.PurgeAll(t, cl) }()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enough := filepath.Join(harness.TempDir(t), "enough")
	ids := []*api.WorkloadIdentity{{Name: "short", Audience: []string{"aud.example"}, File: true,
		TTL: 15 * time.Second}} // half of it remains for the start of the agent
	al := harness.Register(t, cl, rawTask("holder", ids, self, "holder", "nomad_short.jwt", enough), "running")
	file := filepath.Join(secretsOf(cl, al), "nomad_short.jwt")

	renewed(t, file)
	if err := cl.Kill(); err != nil {
		t.Fatal(err)
	}
	cl = harness.Restart(t, cl)
	renewed(t, file)
	lead := s.Agreed()
	if err := s.All[lead].Kill(); err != nil {
		t.Fatal(err)
	}
	renewed(t, file)
	renewed(t, file)
	s.All[lead] = harness.Restart(t, s.All[lead])

	harness.WriteFile(t, enough, "")
	harness.Await(t, cl, "holder", api.AllocClientStatusComplete, 1)
	output := harness.Log(cl, al)
	var reads, tokens int
	if _, err := fmt.Sscanf(output, "held: %d reads, %d tokens", &reads, &tokens); err != nil || reads < 100 || tokens < 5 {
		t.Errorf("task output %q, want only that it held tokens: %v", output, err)
	}
	t.Log(output)
}

// Without any server the task continues with an expired token. When a server returns, the token is
// renewed within seconds, and the task is notified.
func TestOutageLongerThanTheToken(t *testing.T) {
	f := harness.NewFleet(t, "")
	cl := f.Join("c1", "")
	defer f.Purge()
	// The signal is ignored before the trap is set: the first renewal may come at once.
	ids := []*api.WorkloadIdentity{{Name: "short", Audience: []string{"aud.example"}, File: true, TTL: 6 * time.Second,
		ChangeMode: "signal", ChangeSignal: "SIGURG"}}
	al := harness.Register(t, cl, rawTask("outage", ids, "/bin/sh", "-c",
		`n=0; trap 'n=$((n+1)); echo notified $n' URG; echo pid $$; while :; do sleep 0.1; done`), "running")
	file := filepath.Join(secretsOf(cl, al), "nomad_short.jwt")
	pid := harness.PID(t, cl, al)
	renewed(t, file)
	if err := f.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "the token is expired", func() bool {
		_, err := lifeOf(harness.Content(t, file), time.Now())
		return err != nil
	})
	if _, err := os.Stat("/proc/" + pid); err != nil {
		t.Errorf("the task ended with its token: %v", err)
	}
	notified := strings.Count(textOf(t, cl, al), "notified")
	f.Server = harness.Restart(t, f.Server)
	harness.Within(t, 2*harness.Patience, "a valid token and a notification of the task", func() bool {
		_, err := lifeOf(harness.Content(t, file), time.Now())
		return err == nil && strings.Count(textOf(t, cl, al), "notified") > notified
	})
	if got := harness.PID(t, f.Server, al); got != pid {
		t.Errorf("the task is process %s, was %s", got, pid)
	}
}

// textOf returns a file of a task from its node's disk.
func textOf(t *testing.T, a *cluster.Agent, al *api.AllocationListStub) string {
	t.Helper()
	return harness.Content(t, filepath.Join(a.Dir, "data", "alloc", al.ID, "alloc", "logs", "t.stdout.0"))
}

// The change mode of the job determines the notification of a renewed token: a restart, a signal,
// or none. A task that cannot be notified is stopped.
func TestChangeModes(t *testing.T) {
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "drivers.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers)
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			"-config=" + cfg}})
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	for name, test := range map[string]func(*testing.T, *cluster.Agent){
		"restart": restartedByToken, "signal": signalledByToken, "noop": notNotified, "signal fails": endedByToken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

func awsIdentity(mode, signal string) []*api.WorkloadIdentity {
	return []*api.WorkloadIdentity{{Name: "aws", Audience: []string{"aud.example"}, Env: true, File: true, TTL: 4 * time.Second,
		ChangeMode: mode, ChangeSignal: signal}}
}

// seenByTask prints the end of the token in the environment and in the file, at the start and on
// each SIGURG, which is ignored before the trap is set.
const seenByTask = `say() { echo "$1 pid=$$ env=$(echo "$NOMAD_TOKEN_aws" | tail -c 20) file=$(tail -c 19 $NOMAD_SECRETS_DIR/nomad_aws.jwt)"; }; trap 'say notified' URG; say start; while :; do sleep 0.1; done`

func restartedByToken(t *testing.T, a *cluster.Agent) {
	al := harness.Register(t, a, rawTask("mode-restart", awsIdentity("restart", ""), "/bin/sh", "-c", seenByTask), "running")
	var lines []string
	harness.Within(t, harness.Patience, "four starts", func() bool {
		lines = strings.Split(strings.TrimSpace(harness.Log(a, al)), "\n")
		return len(lines) >= 4
	})
	seen, before := map[string]bool{}, ""
	for _, line := range lines[:4] {
		var pid int
		var env, file string
		// The file may be new already while the process is about to be restarted.
		if _, err := fmt.Sscanf(line, "start pid=%d env=%s file=%s", &pid, &env, &file); err != nil || seen[env] ||
			before != "" && env != before {
			t.Errorf("a process saw %q (%v), want a new token in its environment, that of the file", line, err)
		}
		seen[env], before = true, ""
		if env != file {
			before = file
		}
	}
	al = harness.Await(t, a, "mode-restart", "running", 1)[0] // pending between two starts
	if got := harness.Events(al, "t"); !slices.Contains(got, api.TaskRestartSignal) || al.TaskStates["t"].Failed {
		t.Errorf("events are %v, failed %v", got, al.TaskStates["t"].Failed)
	}
}

func signalledByToken(t *testing.T, a *cluster.Agent) {
	al := harness.Register(t, a, rawTask("mode-signal", awsIdentity("signal", "SIGURG"), "/bin/sh", "-c", seenByTask), "running")
	var text string
	var files, pids, envs map[string]bool
	harness.Within(t, harness.Patience, "signals for two new tokens", func() bool { // one may come late, for both
		text = harness.Log(a, al)
		files, pids, envs = map[string]bool{}, map[string]bool{}, map[string]bool{}
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) != 4 {
				t.Fatalf("task output %q", line)
			}
			pids[f[1]], envs[f[2]], files[f[3]] = true, true, true
		}
		return len(files) >= 3
	})
	if len(pids) != 1 || len(envs) != 1 {
		t.Errorf("%d processes saw %d tokens in the environment, want 1 and 1: %q", len(pids), len(envs), text)
	}
	harness.Within(t, harness.Patience, "the signal event", func() bool {
		al = harness.Await(t, a, "mode-signal", "running", 1)[0]
		return slices.Contains(harness.Events(al, "t"), api.TaskSignaling)
	})
	if n := al.TaskStates["t"].Restarts; n != 0 {
		t.Errorf("%d restarts", n)
	}
}

func notNotified(t *testing.T, a *cluster.Agent) {
	al := harness.Register(t, a, rawTask("mode-noop", awsIdentity("noop", ""), "/bin/sh", "-c", seenByTask), "running")
	file := filepath.Join(secretsOf(a, al), "nomad_aws.jwt")
	harness.WaitLog(t, a, al)
	renewed(t, file)
	renewed(t, file)
	if output := harness.Log(a, al); strings.Count(output, "\n") != 1 {
		t.Errorf("task output %q, want its start only", output)
	}
}

func endedByToken(t *testing.T, a *cluster.Agent) {
	job := rawTask("mode-fails", awsIdentity("signal", "SIGHUP"), "")
	task := job.TaskGroups[0].Tasks[0]
	task.Driver, task.Config = "mock_driver", map[string]any{"run_for": "1h", "signal_error": "deaf"}
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	al := harness.Await(t, a, "mode-fails", api.AllocClientStatusFailed, 1)[0]
	if s := al.TaskStates["t"]; !s.Failed || !slices.ContainsFunc(s.Events, func(e *api.TaskEvent) bool {
		return strings.Contains(e.DisplayMessage, "SIGHUP could not be sent")
	}) {
		t.Errorf("failed %v, events %v", s.Failed, harness.Events(al, "t"))
	}
}
