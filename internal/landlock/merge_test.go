package landlock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMerge checks that a file has one rule, unless its modes differ.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ paths, want string }{
		{"", ""},
		{"r:a r:b", "r:a r:b"},
		{"rx:link rx:a", "rx:link"},
		{"r:a rw:link", "rw:link"},
		{"rw:a r:link r:a", "rw:a"},
		{"device-r:a r:a", "device-r:a"},
		{"rw:a device-r:link", "rw:a device-r:link"},
		{"r:a w:link", "r:a w:link"}, // together they would allow connecting to sockets
		{"rx:. r:a wr:link rw:a x:.", "rx:. wr:link"},
	} {
		var paths []Path
		for _, p := range strings.Fields(tt.paths) {
			modes, name, _ := strings.Cut(p, ":")
			modes, device := strings.CutPrefix(modes, "device-")
			fd, err := unix.Open(filepath.Join(dir, name), unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Close(fd) })
			paths = append(paths, Path{Modes: modes, FD: fd, Name: p, Device: device})
		}
		got, err := merge(paths)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range got {
			names = append(names, p.Name)
		}
		if s := strings.Join(names, " "); s != tt.want {
			t.Errorf("merge(%s) = %s, want %s", tt.paths, s, tt.want)
		}
	}
	if _, err := merge([]Path{{Modes: "r", FD: -1}}); err == nil {
		t.Error("merge() of a closed descriptor = nil, want an error")
	}
}
