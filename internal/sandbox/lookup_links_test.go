package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A path that does not exist is reported as such only if no foreign mount and no link is on
// the way to it.
func TestOnRoot(t *testing.T) {
	l := &lookup{foreign: map[uint64]bool{1 << 62: true}}
	for name, want := range map[string]bool{
		"/nonexistent/x": true, "/proc/nonexistent": false, "/proc/self/nonexistent": false,
	} {
		if got := l.onRoot(name); got != want {
			t.Errorf("onRoot(%s) = %t, want %t", name, got, want)
		}
	}
	l.foreign[l.root] = true
	if l.onRoot("/nonexistent/x") {
		t.Error("onRoot() = true in a foreign root")
	}
}

// A link is followed only if root alone can have created it.
func TestLinksOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of other users")
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	target := filepath.Join(dir, "target")
	if err := errors.Join(os.Mkdir(target, 0o755), os.WriteFile(target+"/file", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	const other = 88123
	for _, tt := range []struct {
		name  string
		owner int // of the directory
		mode  os.FileMode
		link  int // owner of the link
		want  error
	}{
		{"root's", 0, 0o755, 0, nil},
		{"link of another user", 0, 0o755, other, unix.ELOOP},
		{"directory of another user", other, 0o755, 0, unix.ELOOP},
		{"directory of a group", 0, 0o775, 0, unix.ELOOP},
		{"directory of all", 0, 0o777, 0, unix.ELOOP},
		{"sticky directory", 0, 0o777 | os.ModeSticky, 0, unix.ELOOP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := filepath.Join(dir, filepath.Base(t.Name()))
			below := filepath.Join(at, "below")
			if err := errors.Join(os.MkdirAll(below, 0o755), os.Symlink(target, at+"/link"), os.Symlink(target, below+"/link"),
				os.Lchown(at+"/link", tt.link, 0), os.Chown(at, tt.owner, 0), os.Chmod(at, tt.mode)); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"/link", "/link/file"} {
				checkOpen(t, at+name, tt.want)
			}
			checkOpen(t, below, nil)
			// Below a directory whose entries others can replace; the sticky bit prevents that.
			if tt.link != 0 || tt.mode&os.ModeSticky != 0 {
				tt.want = nil
			}
			checkOpen(t, below+"/link/file", tt.want)
		})
	}
}

func checkOpen(t *testing.T, name string, want error) {
	t.Helper()
	fd, err := (&lookup{}).open(name)
	if err == nil {
		fd.Close()
	}
	if !errors.Is(err, want) {
		t.Errorf("open(%s) = %v, want %v", name, err, want)
	}
}
