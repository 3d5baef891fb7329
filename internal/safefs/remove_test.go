package safefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// nest makes a chain of directories, each with a file.
func nest(t *testing.T, at string, depth int) {
	t.Helper()
	fd, err := unix.Open(at, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := unix.Mkdirat(fd, "d", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Symlinkat("/etc", next, "f"); err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	unix.Close(fd)
}

// A task can nest directories deeper than the limit of descriptors, or fill one with many names.
func TestRemoveDeepAndWide(t *testing.T) {
	d, path, _ := inner(t)
	root := filepath.Join(path, "tree")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	nest(t, root, 800)
	for i := range 1500 {
		if err := os.Symlink("/etc", filepath.Join(root, "link"+strings.Repeat("y", i%100)+string(rune(0x4e00+i)))); err != nil {
			t.Fatal(err)
		}
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 200, Max: was.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was) //nolint:errcheck // restore the limit
	if err := d.RemoveAll("tree"); err != nil {
		t.Errorf("RemoveAll() = %.300v", err)
	}
	if _, err := os.Lstat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tree still exists: %v", err)
	}
}

// The content of a mount below is not removed.
func TestRemoveSparesMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	d, path, _ := inner(t)
	at := filepath.Join(path, "tree")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	sub, err := safefs.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := os.Mkdir(filepath.Join(at, "m"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := sub.MountTmpfs("m", safefs.Tmpfs{SizeMB: 1, Mode: 0o700}); err != nil {
		t.Fatal(err)
	}
	defer sub.Unmount("m") //nolint:errcheck // cleanup
	kept := filepath.Join(at, "m", "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveAll("tree"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("RemoveAll() = %v, want %v", err, unix.EBUSY)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the mounted file system was emptied: %v", err)
	}
}
