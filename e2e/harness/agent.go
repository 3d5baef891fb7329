package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// DevAgent starts a lean agent in dev mode for the test. Tasks may unveil paths. Without root, exec2
// runs with Landlock only.
func DevAgent(t *testing.T, args ...string) *cluster.Agent {
	t.Helper()
	dir := TempDir(t)
	cfg := filepath.Join(dir, "exec2.hcl")
	WriteFile(t, cfg, UnveilConfig())
	return Start(t, cluster.Options{Dir: dir, Lean: true, Args: append([]string{"-dev", "-config=" + cfg}, args...)})
}

// UnveilConfig returns the configuration of devAgent.
func UnveilConfig() string {
	text := "plugin \"exec2\" {\n  config {\n    unveil_by_task = true\n"
	if os.Geteuid() != 0 {
		text += "    allow_unprivileged = true\n"
	}
	return text + "  }\n}\n"
}

// Start starts an agent from this program, unless o has another, and prints its output if the test
// fails.
func Start(t *testing.T, o cluster.Options) *cluster.Agent {
	t.Helper()
	if o.Bin == "" {
		bin, err := exec.LookPath("nomad")
		if err != nil {
			t.Fatal(err)
		}
		o.Bin = bin
	}
	name := filepath.Join(o.Dir, "agent.log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o.Log = log
	a, err := cluster.Start(t.Context(), o)
	if err != nil {
		text, _ := os.ReadFile(name)
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
		if text, _ := os.ReadFile(name); t.Failed() {
			t.Logf("the agent's log:\n%s", text)
			endAbandoned(t, o.Dir)
		}
	})
	return a
}

// logLine matches a line of an agent's log.
var logLine = regexp.MustCompile(`^\S+Z \[[A-Z]+\]`)

// Refusal runs an agent that must not start and returns its error.
func Refusal(t *testing.T, o cluster.Options) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cfg := filepath.Join(TempDir(t), "free.hcl")
	WriteFile(t, cfg, "ports {\n http = 0\n rpc = 0\n serf = 0\n}\n")
	cmd := exec.CommandContext(ctx, "nomad", append([]string{"agent", "-config=" + cfg}, o.Args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ctx.Err() != nil || !ok || exit.ExitCode() != 1 {
		t.Fatalf("the agent ended with %v (%v), want exit 1 within %v: %s", err, ctx.Err(), Patience, &stderr)
	}
	last := ""
	for line := range strings.Lines(stderr.String()) {
		if !logLine.MatchString(line) { // logged before
			last += line
		}
	}
	if strings.Count(last, "\n") != 1 {
		t.Errorf("the agent printed more than one line:\n%s", last)
	}
	return last
}

// Exec2Agent starts an agent with a plugin block under the name of the external driver.
func Exec2Agent(t *testing.T, options string) (a *cluster.Agent, data string) {
	t.Helper()
	NeedsSandbox(t)
	dir := TempDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} { // tasks pass through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	data = filepath.Join(dir, "data")
	cfg := filepath.Join(dir, "exec2.hcl")
	WriteFile(t, cfg, "plugin \"nomad-driver-exec2\" {\n  config {\n    "+options+"\n  }\n}\n")
	a = Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + data, "-config=" + cfg}})
	return a, data
}

// TestDrivers enables further drivers for tests, in addition to exec2. Tasks of raw_exec need no
// privileged = true, as with -dev.
const TestDrivers = `
plugin "raw_exec" {
  config {
    enabled                    = true
    legacy_privileged_behavior = true
  }
}
plugin "mock_driver" {
  config {}
}
`

// StartIn starts an agent in a new directory.
func StartIn(t *testing.T, o cluster.Options) *cluster.Agent {
	t.Helper()
	Mkdir(t, o.Dir)
	return Start(t, o)
}

// Restart restarts a killed or stopped agent with its files.
func Restart(t *testing.T, a *cluster.Agent) *cluster.Agent {
	t.Helper()
	return Start(t, a.Options)
}

// Canary is in the agent's environment and must not reach a sandboxed task.
const Canary = "canary-b8f1e2"

// SandboxAgent starts an agent with a data directory and an environment full of secrets. The test
// is skipped where the sandbox is incomplete.
func SandboxAgent(t *testing.T) (a *cluster.Agent, data string) {
	t.Helper()
	NeedsSandbox(t)
	dir := OutsideTmp(t)
	data = filepath.Join(dir, "data")
	cfg := filepath.Join(dir, "exec2.hcl")
	WriteFile(t, cfg, "plugin \"exec2\" {\n  config {\n    unveil_by_task = true\n  }\n}\nplugin \"raw_exec\" {\n  config {\n"+
		"    enabled = true\n    legacy_privileged_behavior = true\n  }\n}\naudit {\n  enabled = true\n}\n")
	a = Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + data, "-config=" + cfg, "-log-level=TRACE"},
		Env: []string{"AWS_SECRET_ACCESS_KEY=" + Canary, "LD_LIBRARY_PATH=/" + Canary, "GLIBC_TUNABLES=glibc.malloc.check=" + Canary,
			"NOMAD_TOKEN=",
			"VAULT_TOKEN=" + Canary, "PLAIN=" + Canary, "GODEBUG=http2debug=0," + Canary + "=1"}})
	t.Cleanup(func() { PurgeAll(t, a) })
	return a, data
}

// Command runs a command of the CLI against an agent, with the bootstrap token of the agent if it has one.
func Command(t *testing.T, a *cluster.Agent, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nomad", args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.Address())
	if a.Secret != "" {
		cmd.Env = append(cmd.Env, "NOMAD_TOKEN="+a.Secret)
	}
	if a.TLS != nil {
		cmd.Env = append(cmd.Env, "NOMAD_CACERT="+a.TLS.CACert, "NOMAD_CLIENT_CERT="+a.TLS.ClientCert, "NOMAD_CLIENT_KEY="+a.TLS.ClientKey)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
