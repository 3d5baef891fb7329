package exec2_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// TestFullDisk has a task write more than the file system of its logs holds. Events report when the
// log cannot be written and when it can be written again.
func TestFullDisk(t *testing.T) {
	f := newFixture(t, nil)
	h := f.report()
	cfg := f.task("/bin/sh", "-c", "seq 60000")
	if err := unix.Mount("test", cfg.LogDir, "tmpfs", 0, "size=128k,mode=777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(cfg.LogDir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if _, err := f.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	message := func(part string) func() bool {
		return func() bool {
			e := h.of(cfg.ID, "Task Logs")
			return e != nil && e.Details["stream"] == "stdout" && strings.Contains(e.Message, part)
		}
	}
	testpace.Until(t, "the task blocks", message("the log of stdout cannot be written: no space left on device: the task blocks"))
	if err := unix.Mount("test", cfg.LogDir, "tmpfs", unix.MS_REMOUNT, "size=10m,mode=777"); err != nil {
		t.Fatal(err)
	}
	// The task must not be destroyed before the event, since it is not reported afterwards.
	if res, err := f.WaitTask(t.Context(), cfg.ID); err != nil || res.ExitCode != 0 {
		t.Errorf("WaitTask() = %+v, %v", res, err)
	}
	testpace.Until(t, "the task continues", message("the log of stdout is writable again"))
	f.wait(cfg)
	if n := h.count(); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}
