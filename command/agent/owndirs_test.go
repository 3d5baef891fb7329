package agent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// The directories of the audit log and the log file are hidden from tasks, unless they are used for
// other files or contain the allocations.
func TestOwnDirs(t *testing.T) {
	data := t.TempDir()
	base := t.TempDir()
	private, shared, around := filepath.Join(base, "private"), filepath.Join(base, "shared"), filepath.Join(base, "around")
	for dir, mode := range map[string]os.FileMode{private: 0o750, shared: 0o777, around: 0o700} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	always := []string{filepath.Join(data, "client"), filepath.Join(data, "server"), filepath.Join(data, "audit")}
	for name, tt := range map[string]struct {
		sink, log string
		want      []string
	}{
		"neither":         {},
		"private sink":    {private + "/audit.log", "", []string{private}},
		"private log":     {"", private + "/nomad.log", []string{private}},
		"shared":          {shared + "/audit.log", shared + "/nomad.log", nil},
		"around the tree": {around + "/audit.log", around + "/nomad.log", nil},
		"absent":          {base + "/absent/audit.log", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Agent{set: &config.Settings{}, data: &dataDir{path: data}}
			if tt.sink != "" {
				a.set.Audit = config.Audit{Enabled: true, Sink: map[string]*config.AuditSink{"s": {Path: tt.sink, Mode: "0600"}}}
			}
			if tt.log != "" {
				a.logFile = &logFile{path: tt.log}
			}
			got := a.ownDirs(always[0], around+"/alloc")
			if want := slices.Concat(always, tt.want); !slices.Equal(got, want) {
				t.Errorf("ownDirs() = %v, want %v", got, want)
			}
		})
	}
}
