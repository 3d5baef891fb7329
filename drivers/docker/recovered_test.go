package docker_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/docker"
	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testthread"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// mountInside mounts a file system in a running container, as a fault of a daemon or its runtime could.
func mountInside(t *testing.T, pid int, target string) {
	t.Helper()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	testthread.Run(func() {
		if err = unix.Unshare(unix.CLONE_FS); err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS)
		}
		if err == nil {
			err = unix.Mount("tmpfs", target, "tmpfs", 0, "")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A container of an earlier agent is compared as a started one. It goes on without an event if nothing has changed.
func TestRecoveredIsCompared(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		level   drivers.Level
		changed bool
		want    string // part of the error or of the event
	}{
		"unchanged":           {drivers.LevelRestricted, false, ""},
		"changed":             {drivers.LevelRestricted, true, `it has a mount at "/bin"`},
		"changed, no demand":  {drivers.LevelNone, true, `it has a mount at "/bin"`},
		"unchanged, no level": {drivers.LevelNone, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.restricted("7:8", block{"image": testdocker.Image})
			cfg.Level = c.level
			h, err := f.StartTask(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer f.DestroyTask(cfg.ID, true)
			status, err := f.InspectTask(cfg.ID)
			if err != nil {
				t.Fatal(err)
			}
			id := status.Attributes["container_id"]
			if c.changed {
				mountInside(t, f.inspect(id).State.Pid, "/bin")
			}
			f.Abandon()
			later := f.open(docker.Name, f.config)
			defer later.Abandon()
			err = later.RecoverTask(t.Context(), h)
			removed := c.changed && c.level > drivers.LevelNone
			if removed != errors.Is(err, drivers.ErrTaskNotFound) || removed && !strings.Contains(err.Error(), c.want) || !removed && err != nil {
				t.Errorf("RecoverTask() = %v, want %q", err, c.want)
			}
			if list, err := later.ListTasks(t.Context()); err != nil || (len(list) == 0) != removed {
				t.Errorf("ListTasks() = %+v, %v, want it removed: %t", list, err, removed)
			}
			if got := strings.Contains(strings.Join(f.messages(cfg.ID), "\n"), `it has a mount at`); got != (c.changed && !removed) {
				t.Errorf("events = %q", f.messages(cfg.ID))
			}
		})
	}
}
