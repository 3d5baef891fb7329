package crash_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestExitCodes ends agents by signals: SIGINT gives exit code 1 without leave_on_interrupt, for
// servers and clients.
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		end          func(*cluster.Agent) error
		want         int
	}{
		{"SIGINT", "", (*cluster.Agent).Interrupt, 1},
		{"SIGINT, leave_on_terminate", "leave_on_terminate = true", (*cluster.Agent).Interrupt, 1},
		{"SIGINT, leave_on_interrupt", "leave_on_interrupt = true", (*cluster.Agent).Interrupt, 0},
		{"SIGTERM", "", (*cluster.Agent).Stop, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "signals.hcl")
			if err := os.WriteFile(file, []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-dev", "-config=" + file}})
			if err := tt.end(a); err != nil {
				t.Fatal(err)
			}
			if got := a.ExitCode(); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}
