package server

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// The end of a task removes its group also if a program joined it after the task's processes were
// killed.
func TestRemoveGroupWithProcesses(t *testing.T) {
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if err != nil || h.V2 == "" {
		t.Skipf("needs control groups with a version 2 tree: %v", err)
	}
	g, err := h.Create("nomad-test.slice", fmt.Sprintf("%s-%d", t.Name(), os.Getpid()), cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(g.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	late := exec.Command("sleep", "1000")
	late.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	(&task{log: slog.New(slog.NewTextHandler(t.Output(), nil)), group: g}).removeGroup()
	if _, err := os.Stat(g.Dir()); !os.IsNotExist(err) {
		t.Errorf("after %v the group still exists: %v", time.Since(begun), err)
		late.Process.Kill() //nolint:errcheck // waited for
	}
	if err := late.Wait(); err == nil {
		t.Error("the program was not killed")
	}
}
