package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// nobodysGroup bypasses hidepid. The default would be root's group, which programs can be members
// of.
const nobodysGroup = "4294967294"

// mountProc mounts a /proc for the stage's PID namespace, which shows to each user only processes that this user may
// trace.
func mountProc() error {
	t, err := safefs.NewTree("proc", hardened, [2]string{"hidepid", "invisible"}, [2]string{"gid", nobodysGroup})
	if err != nil {
		return err
	}
	defer t.Close()
	at, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := t.Attach(at); err != nil {
		return err
	}
	return checkProc(int(t))
}

// checkProc verifies that /proc is the created mount.
func checkProc(made int) error {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc", &fs); err != nil {
		return err
	}
	var want, have unix.Stat_t
	if err := errors.Join(unix.Fstat(made, &want), unix.Stat("/proc", &have)); err != nil {
		return err
	}
	if fs.Type != unix.PROC_SUPER_MAGIC || have.Dev != want.Dev {
		return fmt.Errorf("another file system is mounted there: type %#x, device %#x instead of %#x", fs.Type, have.Dev, want.Dev)
	}
	return nil
}
