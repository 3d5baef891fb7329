package docs_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// unpack returns the files of a debug archive in dir, by their names below its directory.
func unpack(t *testing.T, dir string) map[string]string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "nomad-debug-*.tar.gz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("archives %q, %v", found, err)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive has the mode %v, %v", info.Mode(), err)
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		out[name] = string(text)
	}
}

// A debug bundle of a cluster with secrets of every kind contains none of them.
func TestBundleHasNoSecrets(t *testing.T) {
	const gossip, management = "Y2FuYXJ5LWdvc3NpcC1rZXktMzItYnl0ZXMtbG9uZyE=", "11111111-2222-3333-4444-aaaaaaaaaaaa"
	dir := harness.TempDir(t)
	data := filepath.Join(dir, "data")
	cfg := filepath.Join(dir, "secrets.hcl")
	harness.WriteFile(t, cfg, harness.UnveilConfig()+fmt.Sprintf(`
acl { enabled = true }
server {
  enabled          = true
  bootstrap_expect = 1
  encrypt          = %q
}
client { enabled = true }
bind_addr = "127.0.0.1"
log_level = "DEBUG"
log_file  = "%s/logs/"
http_api_response_headers { X-Canary = "canary-header" }
`, gossip, dir))
	a := harness.StartIn(t, cluster.Options{Dir: dir, Args: []string{"-config=" + cfg, "-data-dir=" + data}, Secret: management,
		Env: []string{"AWS_SECRET_ACCESS_KEY=canary-agent-env", "CANARY=canary-agent-env"}})
	c := harness.SDKClient(t, a, management)
	token, _, err := c.ACLTokens().Create(&sdk.ACLToken{Name: "people", Type: "management"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Variables().Create(&sdk.Variable{Path: "nomad/jobs/secret", Items: sdk.VariableItems{"k": "canary-variable"}},
		nil); err != nil {
		t.Fatal(err)
	}
	out := harness.TempDir(t)
	cmd := exec.CommandContext(t.Context(), "nomad", "operator", "debug", "-duration=6s", "-interval=2s", "-pprof-interval=3s",
		"-event-topic=*",
		"-log-file-export", "-token="+management)
	cmd.Dir = out
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.Address(), "NOMAD_TOKEN="+token.SecretID, "AWS_SECRET_ACCESS_KEY=canary-cli-env")
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, a, harness.Job("secret", `type = "batch"`+"\nmeta {\n m = \"canary-meta\"\n}",
		harness.Once+harness.Shell("echo canary-argument",
			"privileged = true\nenv {\n E = \"canary-env\"\n}\ntemplate {\n data = \"canary-template\"\n destination = \"local/x\"\n"+
				"}\nidentity {\n env = true\n}\n")))
	if _, err := harness.SDKClient(t, a, "eyJhbGciOiJFZERTQSJ9.eyJjYW5hcnkiOjF9.canary").Raw().Query("/v1/jobs?token=canary-query", nil,
		nil); err == nil {
		t.Error("a forged token is accepted")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, printed.String())
	}
	files := unpack(t, out)
	hidden := map[string]string{"a canary": "canary-", "the gossip key": gossip, "the bootstrap token": management,
		"a token": token.SecretID, "a JWT": "eyJ",
		"the node's secret": harness.Content(t, filepath.Join(data, "client", "secret-id")), "a private key": "PRIVATE KEY",
		"wrapped keys": "WrappedKey\""}
	for name, text := range files {
		for what, secret := range hidden {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s contains %s: %.200q", name, what, text[max(0, i-80):])
			}
		}
	}
	for name, want := range map[string]string{"cluster/eventstream.json": `"JobRegistered"`, "nomad/0000/jobs.json": "[",
		"nomad/0001/nodes.json": `"ready"`, "cluster/members.json": `"alive"`,
		"nomad/0000/metrics.json": "Gauges", "cluster/agent-self.json": `"config"`, "cluster/cli-flags.json": `"token": "<redacted>"`,
		"index.json": `"Interrupted": false`, "index.html": "agent-self.json"} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not contain %s: %.300s", name, want, files[name])
		}
	}
	for _, kind := range []string{"server/", "client/"} {
		for _, want := range []string{"agent-host.json", "monitor.log", "monitor_export.log", "profile_0000.prof", "trace_0000.prof",
			"heap_0000.prof", "goroutine-debug2_0000.txt"} {
			found := false
			for name, text := range files {
				found = found || strings.HasPrefix(name, kind) && strings.HasSuffix(name, "/"+want) && text != ""
			}
			if !found {
				t.Errorf("%s has no %s", kind, want)
			}
		}
	}
	if strings.Contains(printed.String(), "canary") || strings.Contains(printed.String(), management) {
		t.Errorf("the command prints a secret:\n%s", printed.String())
	}
}

// An interrupt ends a capture. The archive contains what was captured.
func TestBundleInterrupted(t *testing.T) {
	a := harness.DevAgent(t)
	out := harness.TempDir(t)
	temp := harness.TempDir(t)
	cmd := exec.CommandContext(t.Context(), "nomad", "operator", "debug", "-duration=10m", "-verbose")
	cmd.Dir, cmd.Env = out, append(os.Environ(), "NOMAD_ADDR="+a.Address(), "TMPDIR="+temp)
	log := filepath.Join(temp, "log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, time.Minute, "a capture of the jobs",
		func() bool { return strings.Contains(harness.Content(t, log), "Captured nomad/0000/jobs.json") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, harness.Content(t, log))
	}
	if text := harness.Content(t, log); !strings.Contains(text, "Interrupted: ") ||
		!strings.Contains(text, "Created debug archive: nomad-debug-") {
		t.Errorf("output %s", text)
	}
	if files := unpack(t, out); !strings.Contains(files["index.json"], `"Interrupted": true`) || files["nomad/0000/jobs.json"] == "" {
		t.Errorf("index %s", files["index.json"])
	}
	if left, err := filepath.Glob(filepath.Join(temp, "nomad-debug-*")); err != nil || len(left) != 0 {
		t.Errorf("temporary files %q, %v", left, err)
	}
}
