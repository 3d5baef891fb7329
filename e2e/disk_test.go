package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// refusal runs an agent that must not start and returns its error.
func refusal(t *testing.T, o cluster.Options) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := filepath.Join(tempDir(t), "free.hcl")
	write(t, cfg, "ports {\n http = 0\n rpc = 0\n serf = 0\n}\n")
	cmd := exec.CommandContext(ctx, "nomad", append([]string{"agent", "-config=" + cfg}, o.Args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ctx.Err() != nil || !ok || exit.ExitCode() != 1 {
		t.Fatalf("the agent ended with %v (%v), want exit 1 within %v: %s", err, ctx.Err(), patience, &stderr)
	}
	last := ""
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "time=") { // logged before
			last += line
		}
	}
	if strings.Count(last, "\n") != 1 {
		t.Errorf("the agent printed more than one line:\n%s", last)
	}
	return last
}

// A damaged file of the agent is reported in one line and not modified. After it is restored the
// agent continues.
func TestDamagedFiles(t *testing.T) {
	dir := tempDir(t)
	cfg := filepath.Join(dir, "drivers.hcl")
	write(t, cfg, testDrivers)
	a := start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	id, _ := run(t, a, job("web", "", shell("echo $$; exec sleep 3600")))
	al := await(t, a, id, "running", 1)[0]
	pid := logOf(t, a, al)
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
				write(t, file, string(bad))
				defer write(t, file, string(good))
				if text := refusal(t, a.Options); !strings.Contains(text, file) && !strings.Contains(text, filepath.Dir(file)) {
					t.Errorf("output %q does not name %s", text, file)
				}
				if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, bad) {
					t.Errorf("the damaged file has changed: %v, %d bytes, were %d", err, len(now), len(bad))
				}
			})
		}
	}
	a = start(t, a.Options)
	now := await(t, a, id, "running", 1)[0]
	if now.ID != al.ID || log(a, now) != pid || now.TaskStates["t"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts, was %s", now.ID, now.TaskStates["t"].Restarts, al.ID)
	}
	purgeAll(t, a)
}

// An agent that cannot use its directories reports that at once: another agent uses them, or they
// are read-only.
func TestUnusableDirectories(t *testing.T) {
	f := newFleet(t, "")
	client := f.join("only", "")
	for name, a := range map[string]*cluster.Agent{"server": f.srv, "client": client} {
		if text := refusal(t, a.Options); !strings.Contains(text, "in use") {
			t.Errorf("output of a second %s: %q", name, text)
		}
	}
	dir := tempDir(t)
	write(t, filepath.Join(dir, "file"), "")
	for _, role := range [][]string{{"-server", "-bootstrap-expect=1"}, {"-client", "-servers=127.0.0.1:1"}} {
		text := refusal(t, cluster.Options{Args: append(role, "-bind=127.0.0.1", "-data-dir="+filepath.Join(dir, "file"))})
		if !strings.Contains(text, filepath.Join(dir, "file")) {
			t.Errorf("output of %v: %q", role, text)
		}
		text = refusal(t, cluster.Options{Args: append(role, "-bind=127.0.0.1", "-data-dir=/proc/nomad")})
		if !strings.Contains(text, "/proc/nomad") {
			t.Errorf("output of %v: %q", role, text)
		}
	}
}
