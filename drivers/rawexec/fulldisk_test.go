package rawexec_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestFullDisk has a task write more than the file system of its logs holds. Events report when the
// log cannot be written and when it can be written again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a file system of its own")
	}
	d := newDriver(t, nil)
	cfg := task(t, "seq 60000 >&2")
	if err := unix.Mount("test", cfg.LogDir, "tmpfs", 0, "size=128k,mode=777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(cfg.LogDir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var events []string
	if err := d.Report(ctx, func(e *drivers.TaskEvent) {
		events = append(events, e.TaskID+" "+e.Message)
		if len(events) == 2 {
			cancel()
			return
		}
		if err := unix.Mount("test", cfg.LogDir, "tmpfs", unix.MS_REMOUNT, "size=10m,mode=777"); err != nil {
			t.Error(err)
			cancel()
		}
	}); err != context.Canceled {
		t.Errorf("Report() = %v", err)
	}
	want := cfg.ID + " the log of stderr cannot be written: no space left on device: " +
		"the task blocks when its pipe is full\n" + cfg.ID + " the log of stderr is writable again"
	if got := strings.Join(events, "\n"); got != want {
		t.Errorf("the driver reports\n%s\nwant\n%s", got, want)
	}
	if res, err := d.WaitTask(t.Context(), cfg.ID); err != nil || res.ExitCode != 0 {
		t.Errorf("WaitTask() = %+v, %v", res, err)
	}
}
