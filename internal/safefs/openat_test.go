package safefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// lookups returns a directory, open and by its path, that has a file, a directory and links.
func lookups(t *testing.T) (dir int, path string) {
	t.Helper()
	d, path, canary := inner(t)
	err := errors.Join(os.WriteFile(filepath.Join(path, "file"), []byte("task"), 0o600), os.Mkdir(filepath.Join(path, "sub"), 0o700),
		os.WriteFile(filepath.Join(path, "sub/file"), nil, 0o600), os.Symlink(canary, filepath.Join(path, "link")),
		os.Symlink("sub", filepath.Join(path, "links")), os.Symlink("/proc/self/fd", filepath.Join(path, "fds")))
	if err != nil {
		t.Fatal(err)
	}
	return d.FD(), path
}

func TestOpenBeneath(t *testing.T) {
	dir, path := lookups(t)
	for _, c := range []struct {
		name  string
		flags int
		want  error
	}{
		{"file", unix.O_RDONLY, nil},
		{"sub/../file", unix.O_PATH, nil},
		{".", unix.O_PATH | unix.O_DIRECTORY, nil},
		{"link", unix.O_PATH | unix.O_NOFOLLOW, nil}, // the link itself
		{"link", unix.O_PATH, unix.ELOOP},
		{"links/file", unix.O_RDONLY, unix.ELOOP},
		{"links/file", unix.O_PATH | unix.O_NOFOLLOW, unix.ELOOP},
		{"fds/0", unix.O_PATH, unix.ELOOP},
		{"../canary", unix.O_PATH, unix.EXDEV},
		{"sub/../../canary", unix.O_PATH, unix.EXDEV},
		{filepath.Join(path, "file"), unix.O_PATH, unix.EXDEV},
		{"none", unix.O_PATH, unix.ENOENT},
	} {
		for call, open := range map[string]func(int, string, int) (int, error){
			"OpenBeneath": safefs.OpenBeneath, "OpenBeneathNoXDev": safefs.OpenBeneathNoXDev,
		} {
			fd, err := open(dir, c.name, c.flags)
			checkOpen(t, call+"("+c.name+")", fd, err, c.want)
		}
	}
}

func TestOpenNoLinks(t *testing.T) {
	_, path := lookups(t)
	for name, want := range map[string]error{
		filepath.Join(path, "file"):       nil,
		filepath.Join(path, "link"):       unix.ELOOP,
		filepath.Join(path, "links/file"): unix.ELOOP,
		"/proc/self/status":               unix.ELOOP, // self is a link
		"/proc/thread-self":               unix.ELOOP,
		filepath.Join(path, "none"):       unix.ENOENT,
	} {
		fd, err := safefs.OpenNoLinks(name, unix.O_PATH)
		checkOpen(t, "OpenNoLinks("+name+")", fd, err, want)
	}
}

// /proc is a mount of its own everywhere.
func TestOpenNoXDev(t *testing.T) {
	fd, err := safefs.OpenNoLinks("/proc/version", unix.O_PATH)
	checkOpen(t, "OpenNoLinks(/proc/version)", fd, err, nil)
	fd, err = safefs.OpenNoLinksNoXDev("/proc/version", unix.O_PATH)
	checkOpen(t, "OpenNoLinksNoXDev(/proc/version)", fd, err, unix.EXDEV)
	fd, err = safefs.OpenNoLinksNoXDev("/", unix.O_PATH)
	checkOpen(t, "OpenNoLinksNoXDev(/)", fd, err, nil)

	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	fd, err = safefs.OpenBeneath(root, "proc/version", unix.O_PATH)
	checkOpen(t, "OpenBeneath(proc/version)", fd, err, nil)
	fd, err = safefs.OpenBeneathNoXDev(root, "proc/version", unix.O_PATH)
	checkOpen(t, "OpenBeneathNoXDev(proc/version)", fd, err, unix.EXDEV)
}

// checkOpen checks the result of an open, and that execve closes the descriptor.
func checkOpen(t *testing.T, call string, fd int, err, want error) {
	t.Helper()
	if err != want { // callers compare the plain values
		t.Errorf("%s = %v, want %v", call, err, want)
	}
	if err != nil {
		if fd != -1 {
			t.Errorf("%s = descriptor %d with an error, want -1", call, fd)
		}
		return
	}
	defer unix.Close(fd)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("%s: descriptor flags %#x, %v, want FD_CLOEXEC", call, flags, err)
	}
}
