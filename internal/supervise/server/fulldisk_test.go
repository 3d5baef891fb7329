package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// TestFullDisk has a task write more than fits on the file system of its logs. This is logged once
// and reported, and no byte is lost when there is space again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a file system of its own")
	}
	r := newRig(t)
	if err := unix.Mount("test", r.logs, "tmpfs", 0, "size=128k,mode=777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(r.logs, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c := r.client()
	s := r.spec("seq 60000")
	r.start(c, s)
	testpace.Until(r.t, "the fault", func() bool {
		task, err := c.Task(t.Context(), s.ID)
		return err == nil && strings.Contains(task.LogFaults["stdout"], "no space left")
	})
	if err := unix.Mount("test", r.logs, "tmpfs", unix.MS_REMOUNT, "size=10m,mode=777"); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(c, s.ID); exit.Code != 0 {
		t.Errorf("exit = %+v", exit)
	}
	if got := r.stdout(s); got != sequence(60000) {
		t.Errorf("the log has %d bytes, want %d", len(got), len(sequence(60000)))
	}
	if task, err := c.Task(t.Context(), s.ID); err != nil || len(task.LogFaults) > 0 {
		t.Errorf("Task() = %+v, %v, want no fault", task, err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cannot be written: the task blocks", "is writable again"} {
		if n := strings.Count(string(text), want); n != 1 {
			t.Errorf("the supervisor logs %q %d times, want once:\n%s", want, n, text)
		}
	}
}
