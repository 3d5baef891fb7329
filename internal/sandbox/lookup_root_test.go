package sandbox

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenOnRoot: what is opened in one call, links and all, has left the mount of / at
// no step, and that mount is nobody else's.
func TestOpenOnRoot(t *testing.T) {
	l := &lookup{}
	fd, err := l.openOnRoot("/.")
	if err != nil {
		t.Fatalf("openOnRoot(/.) = %v", err)
	}
	defer fd.Close()
	root, err := mountID(int(fd))
	if err != nil || root != l.root {
		t.Errorf("it is on mount %d (%v), the root on %d", root, err, l.root)
	}
	for _, name := range []string{"/proc", "/proc/..", "/proc/self/root", "/proc/self/root/usr", "/dev/../proc/self/cwd"} {
		if fd, err := l.openOnRoot(name); err != unix.EXDEV {
			t.Errorf("openOnRoot(%s) = %v, want %v", name, err, unix.EXDEV)
			fd.Close()
		}
	}
	l.foreign = map[uint64]bool{l.root: true}
	if fd, err := l.openOnRoot("/."); err != unix.EXDEV {
		t.Errorf("openOnRoot() on a foreign root = %v, want %v", err, unix.EXDEV)
		fd.Close()
	}
}
