package exec2_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/testaudit"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A flood of denials is one event with the count.
func TestFloodOfDenials(t *testing.T) {
	testaudit.Need(t, denials.Audit)
	f := newFixture(t, settings{"explain_denials": cty.StringVal("audit")})
	h := f.report()
	dir, err := os.MkdirTemp("/var/tmp", "exec2-flood-") // the task has a private /tmp
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, "f"+strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"files": {"flood-files", dir + "/f", "1000"}, "calls": {"flood-calls", "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			var e *drivers.TaskEvent
			count := 0
			for n := 0; n < 20 && count < 500; n++ { // the kernel drops records on a busy host
				cfg := f.probeTask(args...)
				f.run(cfg)
				if e = h.of(cfg.ID, "Sandbox Denial"); e != nil {
					if count, err = strconv.Atoi(e.Details["count"]); err != nil {
						t.Fatal(err)
					}
				}
			}
			if count < 500 || !strings.Contains(e.Message, " operations: ") {
				t.Errorf("event of %d refusals: %+v, want one with the number", count, e)
			}
		})
	}
}

// Denied probes of C libraries and language runtimes cause no event.
func TestHarmlessDenials(t *testing.T) {
	testaudit.Need(t, denials.Audit)
	f := newFixture(t, settings{"explain_denials": cty.StringVal("audit")})
	h := f.report()
	const harmless = "cat /proc/filesystems /proc/mounts; tty </dev/null; LANG=en_US.UTF-8 ls local;"
	_, list := f.until(h, 1, func() *drivers.TaskConfig { return f.task("/bin/sh", "-c", harmless+" cat /etc/passwd") })
	if len(list) != 1 || list[0].Path != "/etc/passwd" {
		t.Errorf("refusals = %+v, want /etc/passwd alone", list)
	}
	cfg := f.task("/bin/sh", "-c", harmless)
	if out := f.run(cfg); !strings.Contains(out.Stderr, "/proc/filesystems: Permission denied") {
		t.Errorf("the probe was not refused: %s", out.Stderr)
	}
	if e := h.of(cfg.ID, "Sandbox Denial"); e != nil {
		t.Errorf("event %q, want none", e.Message)
	}
}
