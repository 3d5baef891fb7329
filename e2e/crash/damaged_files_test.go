package crash_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A damaged file of the agent is reported in one line and not modified. After it is restored the
// agent continues.
func TestDamagedFiles(t *testing.T) {
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "drivers.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers)
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			"-config=" + cfg}})
	id, _ := harness.Run(t, a, harness.Job("web", "", harness.Shell("echo $$; exec sleep 3600")))
	al := harness.Await(t, a, id, "running", 1)[0]
	pid := harness.WaitLog(t, a, al)
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	damages := map[string]func(good []byte) []byte{
		"garbage":   func(good []byte) []byte { b := make([]byte, len(good)); rand.Read(b); return b },
		"truncated": func(good []byte) []byte { return good[:2*4096+100] }, // the rest of the file may be reserved space
		"short":     func(good []byte) []byte { return good[:100] },
		"zeroed":    func(good []byte) []byte { return make([]byte, len(good)) },
		"half zero": func(good []byte) []byte { return append(good[:8192:8192], make([]byte, len(good)-8192)...) },
	}
	for _, name := range []string{"client/state.db", "server/raft/wal/wal-meta.db"} {
		file := filepath.Join(dir, "data", name)
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for kind, damage := range damages {
			t.Run(fmt.Sprint(name, " ", kind), func(t *testing.T) {
				bad := damage(good)
				harness.WriteFile(t, file, string(bad))
				defer harness.WriteFile(t, file, string(good))
				if text := harness.Refusal(t, a.Options); !strings.Contains(text, file) && !strings.Contains(text, filepath.Dir(file)) {
					t.Errorf("output %q does not name %s", text, file)
				}
				if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, bad) {
					t.Errorf("the damaged file has changed: %v, %d bytes, were %d", err, len(now), len(bad))
				}
			})
		}
	}
	a = harness.Start(t, a.Options)
	now := harness.Await(t, a, id, "running", 1)[0]
	if now.ID != al.ID || harness.Log(a, now) != pid || now.TaskStates["t"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts, was %s", now.ID, now.TaskStates["t"].Restarts, al.ID)
	}
	harness.PurgeAll(t, a)
}

// An agent that cannot use its directories reports that at once: another agent uses them, or they
// are read-only.
func TestUnusableDirectories(t *testing.T) {
	f := harness.NewFleet(t, "")
	client := f.Join("only", "")
	for name, a := range map[string]*cluster.Agent{"server": f.Server, "client": client} {
		if text := harness.Refusal(t, a.Options); !strings.Contains(text, "in use") {
			t.Errorf("output of a second %s: %q", name, text)
		}
	}
	dir := harness.TempDir(t)
	harness.WriteFile(t, filepath.Join(dir, "file"), "")
	for _, role := range [][]string{{"-server", "-bootstrap-expect=1"}, {"-client", "-servers=127.0.0.1:1"}} {
		text := harness.Refusal(t, cluster.Options{Args: append(role, "-bind=127.0.0.1", "-data-dir="+filepath.Join(dir, "file"))})
		if !strings.Contains(text, filepath.Join(dir, "file")) {
			t.Errorf("output of %v: %q", role, text)
		}
		text = harness.Refusal(t, cluster.Options{Args: append(role, "-bind=127.0.0.1", "-data-dir=/proc/nomad")})
		if !strings.Contains(text, "/proc/nomad") {
			t.Errorf("output of %v: %q", role, text)
		}
	}
}
