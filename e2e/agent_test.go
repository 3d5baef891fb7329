package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// contains is strings.Contains, ignoring spaces, which JSON may have.
func contains(text, part string) bool {
	return strings.Contains(strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(part, " ", ""))
}

// withDefault adds a default to the variable "nomad" of a jobspec: routes that parse HCL accept no
// -var.
func withDefault(text, value string) string {
	return strings.Replace(text, "type        = string", "type        = string\n  default     = \""+value+"\"", 1)
}

// tempDir returns a directory that is removed after the test. The supervisor of a killed agent uses
// it for two more seconds.
func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { cleared(t, dir) })
	return dir
}

// cleared removes a directory, and retries while processes still use it.
func cleared(t *testing.T, dir string) {
	t.Helper()
	succeeds(t, "remove "+dir, func() error { return os.RemoveAll(dir) })
}

// devAgent starts an agent in dev mode for the test. Tasks may unveil paths. Without root, exec2
// runs with Landlock only.
func devAgent(t *testing.T, args ...string) *cluster.Agent {
	t.Helper()
	dir := tempDir(t)
	cfg := filepath.Join(dir, "exec2.hcl")
	write(t, cfg, unveiling())
	return start(t, cluster.Options{Dir: dir, Args: append([]string{"-dev", "-config=" + cfg}, args...)})
}

// unveiling returns the configuration of devAgent.
func unveiling() string {
	text := "plugin \"exec2\" {\n  config {\n    unveil_by_task = true\n"
	if os.Geteuid() != 0 {
		text += "    allow_unprivileged = true\n"
	}
	return text + "  }\n}\n"
}

// start starts an agent from this program, unless o has another, and prints its output if the test
// fails.
func start(t *testing.T, o cluster.Options) *cluster.Agent {
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
		}
	})
	return a
}

func mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(name, 0o711); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
