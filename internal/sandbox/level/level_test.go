package level_test

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/sandbox/level"
)

func complete() level.Facts {
	return level.Facts{LandlockABI: 7, Filter: true, DefaultFilter: true, Limits: true,
		OwnUser: true, OwnProcesses: true, OwnMounts: true, OwnIPC: true}
}

func TestOf(t *testing.T) {
	tests := []struct {
		name  string
		edit  func(*level.Facts)
		want  level.Level
		lacks string
	}{
		{"whole", func(*level.Facts) {}, level.Strict, ""},
		{"the least that is strict", func(f *level.Facts) { f.LandlockABI = 6 }, level.Strict, ""},
		{"no uid", func(f *level.Facts) { f.OwnUser = false }, level.Restricted, "a uid per task"},
		{"no PID namespace", func(f *level.Facts) { f.OwnProcesses = false }, level.Restricted, "PID namespace"},
		{"no mount namespace", func(f *level.Facts) { f.OwnMounts = false }, level.Baseline, "mount namespace"},
		{"no IPC namespace", func(f *level.Facts) { f.OwnIPC = false }, level.Restricted, "IPC namespace"},
		{"no limits", func(f *level.Facts) { f.Limits = false }, level.Baseline, "control group"},
		{"old Landlock", func(f *level.Facts) { f.LandlockABI = 5 }, level.Baseline, "Landlock ABI 6"},
		{"first Landlock", func(f *level.Facts) { f.LandlockABI = 1 }, level.Baseline, "Landlock ABI 6"},
		{"weak filter", func(f *level.Facts) { f.DefaultFilter = false }, level.Baseline, "all that the default seccomp profile refuses"},
		{"no Landlock", func(f *level.Facts) { f.LandlockABI = 0 }, level.Host, "Landlock, Landlock ABI 6"},
		{"no filter", func(f *level.Facts) { f.Filter, f.DefaultFilter = false, false }, level.None,
			"a seccomp filter, all that the default seccomp profile refuses"},
		{"nothing", func(f *level.Facts) { *f = level.Facts{} }, level.None, "a seccomp filter, Landlock, Landlock ABI 6, " +
			"all that the default seccomp profile refuses, control group, mount namespace, a uid per task, PID namespace, IPC namespace"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := complete()
			tt.edit(&f)
			if got := level.Of(f); got != tt.want {
				t.Errorf("Of() = %s, want %s", got, tt.want)
			}
			if got := strings.Join(f.Missing(), ", "); got != tt.lacks {
				t.Errorf("Missing() = %q, want %q", got, tt.lacks)
			}
		})
	}
}

func TestAttributes(t *testing.T) {
	f := complete()
	want := map[string]string{"driver.exec2.level": "strict", "driver.exec2.landlock.abi": "7"}
	if got := f.Attributes("exec2"); !maps.Equal(got, want) {
		t.Errorf("Attributes() = %v, want %v", got, want)
	}
	f.OwnUser, f.Limits = false, false
	want = map[string]string{"driver.exec2.level": "baseline", "driver.exec2.landlock.abi": "7",
		"driver.exec2.lacks": "control group, a uid per task"}
	if got := f.Attributes("exec2"); !maps.Equal(got, want) {
		t.Errorf("Attributes() = %v, want %v", got, want)
	}
}

// TestDocumented compares the list of levels in sandbox.md with the code: their order, and the
// requirements of each.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../website/content/docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(doc), "\n## Levels\n")
	if !ok {
		t.Fatal("sandbox.md has no section Levels")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	items := map[level.Level]string{}
	var order []string
	for _, item := range strings.Split(section, "\n- `")[1:] {
		name, text, _ := strings.Cut(item, "`: ")
		text, _, _ = strings.Cut(text, "\n\n")
		order = append(order, name)
		items[level.Level(name)] = strings.Join(strings.Fields(text), " ")
	}
	if got := strings.Join(order, " "); got != "none host baseline restricted strict" {
		t.Fatalf("levels of sandbox.md = %q", got)
	}
	for _, l := range []level.Level{level.Host, level.Baseline, level.Restricted, level.Strict} {
		for _, n := range level.Needs(l) {
			if !strings.Contains(items[l], n) {
				t.Errorf("sandbox.md does not list %q as a requirement of %s: %s", n, l, items[l])
			}
		}
	}
}
