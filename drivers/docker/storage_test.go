package docker_test

import (
	"strings"
	"testing"
)

// storage_opt limits the files of a container. A daemon whose file system has no quotas refuses the container, so that no
// task runs without its limit.
func TestStorageOpt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("dd if=/dev/zero of=/big bs=1M count=64 && echo all", block{"storage_opt": block{"size": "16M"}}))
	_, err := f.StartTask(t.Context(), cfg)
	if err != nil {
		if !strings.Contains(err.Error(), "Failed to create container") || !strings.Contains(err.Error(), "quotas") {
			t.Errorf("StartTask() = %v, want a task, or an error about quotas", err)
		}
		return
	}
	defer f.DestroyTask(cfg.ID, true)
	f.wait(cfg.ID)
	if out, errs := f.output(cfg); out != "" || !strings.Contains(errs, "dd:") {
		t.Errorf("64 MiB with size = 16M: %q, %q", out, errs)
	}
}
