package nodes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// The snapshot agent takes and rotates snapshots of a real server, survives its outage, and ends
// cleanly.
func TestSnapshotAgent(t *testing.T) {
	dir, out := harness.TempDir(t), harness.TempDir(t)
	srv := harness.StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data")}})
	cfg := filepath.Join(harness.TempDir(t), "agent.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf("nomad {\n  address = %q\n}\nsnapshot {\n  interval = \"1h\"\n  retain   = 2\n"+
		"  prefix   = \"east\"\n}\nlocal_storage {\n  path = %q\n}\n", srv.Address(), out))
	var log testbuffer.Buffer
	cmd := exec.Command(srv.Bin, "operator", "snapshot", "agent", "-interval=50ms", "-log-json", cfg)
	cmd.Env = append(os.Environ(), srv.Env...)
	cmd.Stderr, cmd.SysProcAttr = &log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cmd.Process.Kill() // it has ended, unless the test failed
		<-ended
	}()
	newest := func() string {
		found, err := filepath.Glob(filepath.Join(out, "east-*.snap"))
		if err != nil || len(found) == 0 {
			return ""
		}
		return found[len(found)-1]
	}
	harness.Within(t, 20*time.Second, "an old snapshot is removed", func() bool { return strings.Contains(log.String(), "removed an old snapshot") })
	once := exec.Command(srv.Bin, "operator", "snapshot", "agent", "-once", cfg)
	once.Env = cmd.Env
	if text, err := once.CombinedOutput(); err == nil || !strings.Contains(string(text), "another agent") {
		t.Errorf("a second agent: %v, %s", err, text)
	}

	if err := srv.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, 20*time.Second, "the outage is logged", func() bool { return strings.Contains(log.String(), "take a snapshot") })
	before := newest()
	srv = harness.Restart(t, srv)
	harness.Within(t, 20*time.Second, "snapshots continue", func() bool { return newest() > before })

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		ended <- nil
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(harness.Patience):
		t.Fatal("it continues after SIGTERM")
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 3 {
		t.Errorf("the directory has %v, %v, want two snapshots and the lock", entries, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	archive, err := snapshot.OpenFile(newest())
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := archive.Check(); err != nil {
		t.Error(err)
	}
	again := exec.Command(srv.Bin, "operator", "snapshot", "agent", "-once", "-retain=1", cfg)
	again.Env = cmd.Env
	if text, err := again.CombinedOutput(); err != nil {
		t.Errorf("-once: %v, %s", err, text)
	}
	if found, _ := filepath.Glob(filepath.Join(out, "east-*.snap")); len(found) != 1 {
		t.Errorf("-once -retain=1 keeps %d", len(found))
	}
}
