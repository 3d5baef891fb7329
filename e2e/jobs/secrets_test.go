package jobs_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// secretJob prints its secrets, and runs on.
const secretJob = `job "secrets" {
  group "g" {
    restart {
      delay = "10ms"
    }
    secret "var" {
      provider = "nomad"
      path     = "nomad/jobs/${NOMAD_JOB_ID}"
    }
    service {
      name     = "secrets"
      provider = "nomad"
      tags     = ["t-${NOMAD_TASK_NAME}"]
    }
    task "t" {
      driver = "raw_exec"
      secret "own" {
        provider = "own"
        path     = "some path"
        env {
          GIVEN = "${secret.var.short}"
        }
      }
      env {
        FROM_ENV = "${secret.var.odd}"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $$ >> $NOMAD_TASK_DIR/pid; printf '%s|' \"$FROM_ENV\" \"$1\" \"$2\" \"$3\" >> $NOMAD_TASK_DIR/out; exec sleep 1000", "sh",
          "${secret.own.k}", "${upper(secret.var.short)}", "${secret.var.none}"]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
`

// Secret blocks of a group and a task: the start waits for the variable, the values keep every byte and are in no answer of the
// API. A restarted agent has them for the next start of a running task.
func TestSecrets(t *testing.T) {
	harness.NeedsSandbox(t)
	dir := harness.OutsideTmp(t)
	plugins := filepath.Join(dir, "common", "secrets")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\ntest \"$1\" = fingerprint && echo '{\"type\": \"secrets\", \"version\": \"0.1.0\"}' && exit\n" +
		"test \"$2\" = bad && echo leaked-by-plugin >&2 && exit 3\n" +
		"echo \"{\\\"result\\\": {\\\"k\\\": \\\"plugin+$GIVEN+$2\\\"}}\"\n"
	if err := os.WriteFile(filepath.Join(plugins, "own"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := filepath.Join(dir, "client.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers+"client {\n  common_plugin_dir = \""+filepath.Dir(plugins)+"\"\n}\n")
	a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})

	id, _ := harness.Run(t, a, secretJob)
	harness.Within(t, harness.Patience, "the start waits for the variable", func() bool {
		for _, al := range harness.AllAllocs(t, a, id) {
			if s := al.TaskStates["t"]; s != nil && strings.Contains(eventTexts(s), "Missing: nomad.var.block(nomad/jobs/secrets@default.global)") {
				return true
			}
		}
		return false
	})
	odd := "a # \"b\"\n 'c' ${NOMAD_TASK_NAME} "
	v := &api.Variable{Path: "nomad/jobs/secrets", Items: map[string]string{"odd": odd, "short": "x7q9z"}}
	if _, _, err := a.Client.Variables().Create(v, nil); err != nil {
		t.Fatal(err)
	}
	al := harness.Await(t, a, id, "running", 1)[0]
	want := odd + "|plugin+x7q9z+some path|X7Q9Z|${secret.var.none}|"
	local := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, "data", "alloc", al.ID, "t", "local", name))
		return string(text)
	}
	out := func() string { return local("out") }
	harness.Within(t, harness.Patience, "the task has its secrets", func() bool { return out() == want })

	for name, answer := range map[string]func() (any, error){
		"job":        func() (any, error) { j, _, err := a.Client.Jobs().Info(id, nil); return j, err },
		"allocation": func() (any, error) { one, _, err := a.Client.Allocations().Info(al.ID, nil); return one, err },
		"services":   func() (any, error) { s, _, err := a.Client.Services().Get("secrets", nil); return s, err },
	} {
		got, err := answer()
		text, _ := json.Marshal(got)
		if err != nil || strings.Contains(string(text), "x7q9z") {
			t.Errorf("the answer about the %s has a secret, or fails: %v", name, err)
		}
	}

	pids := local("pid")
	a.Kill()
	a = harness.Restart(t, a)
	al = harness.Await(t, a, id, "running", 1)[0]
	if now := local("pid"); now != pids {
		t.Errorf("processes %q after the restart of the agent, were %q", now, pids)
	}
	one, _, err := a.Client.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	harness.Succeeds(t, "restart the task", func() error { return a.Client.Allocations().Restart(one, "t", nil) })
	harness.Within(t, harness.Patience, "the task has its secrets again", func() bool { return out() == want+want })

	bad := strings.ReplaceAll(strings.ReplaceAll(secretJob, `"some path"`, `"bad"`), `job "secrets"`, `job "bad"`)
	bad = strings.ReplaceAll(bad, "nomad/jobs/${NOMAD_JOB_ID}", "nomad/jobs/bad/g/t")
	v = &api.Variable{Path: "nomad/jobs/bad/g/t", Items: map[string]string{"short": "x7q9z"}}
	if _, _, err := a.Client.Variables().Create(v, nil); err != nil {
		t.Fatal(err)
	}
	id, _ = harness.Run(t, a, bad)
	failed := harness.Await(t, a, id, "failed", 1)[0]
	const reason = `secrets: failed executing plugin "own" for secret "own": exit status 3`
	if got := eventTexts(failed.TaskStates["t"]); !strings.Contains(got, reason) || strings.Contains(got, "leaked-by-plugin") {
		t.Errorf("events %s, want %s", got, reason)
	}
	noneOnDisk(t, filepath.Join(dir, "data"))
	harness.PurgeAll(t, a)
	log, err := os.ReadFile(filepath.Join(dir, "agent.log"))
	if err != nil || strings.Contains(string(log), "leaked-by-plugin") || strings.Contains(string(log), "x7q9z") {
		t.Errorf("the log of the agent has a secret, or cannot be read: %v", err)
	}
}

// eventTexts returns the events of a task, one per line.
func eventTexts(s *api.TaskState) string {
	var b strings.Builder
	for _, e := range s.Events {
		b.WriteString(e.Type + ": " + e.DisplayMessage + "\n")
	}
	return b.String()
}

// noneOnDisk checks that no file of the agent has a secret, except the one that the task writes. Links are not followed: the
// records of the supervisor are in memory.
func noneOnDisk(t *testing.T, data string) {
	t.Helper()
	err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a temporary file
			return nil
		}
		if err != nil || !e.Type().IsRegular() || strings.HasSuffix(path, "/t/local/out") {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if strings.Contains(strings.ToLower(string(text)), "x7q9z") {
			t.Errorf("%s has a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
