package allocdir_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/client/allocdir"
)

// TestListen checks that the socket takes its place whatever a task has put there, and follows no link.
func TestListen(t *testing.T) {
	for name, plant := range map[string]func(at, outside string) error{
		"nothing":   func(string, string) error { return nil },
		"file":      func(at, _ string) error { return os.WriteFile(at, []byte("x"), 0o600) },
		"link":      func(at, outside string) error { return os.Symlink(outside, at) },
		"hard link": func(at, outside string) error { return os.Link(outside, at) },
		"directory": func(at, _ string) error { return os.MkdirAll(filepath.Join(at, "deep"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			outside := filepath.Join(root, "outside")
			if err := os.WriteFile(outside, []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := allocdir.Build(root, "a")
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			at := filepath.Join(d.SharedPath(), allocdir.TmpName, "s.sock")
			if err := plant(at, outside); err != nil {
				t.Fatal(err)
			}
			for range 2 { // an agent that restarts replaces its own
				l, err := d.Listen(t.Context(), "s.sock")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
			}
			c, err := net.Dial("unix", at)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			if info, err := os.Lstat(at); err != nil || info.Mode() != os.ModeSocket|0o777 {
				t.Errorf("the socket has mode %v, %v", info.Mode(), err)
			}
			if info, err := os.Lstat(outside); err != nil || info.Mode() != 0o600 {
				t.Errorf("the file outside has mode %v, %v", info.Mode(), err)
			}
			if left, err := filepath.Glob(filepath.Join(d.Path(), "socket-*")); err != nil || len(left) > 0 {
				t.Errorf("left in the directory: %q, %v", left, err)
			}
			if err := d.RemoveSocket("s.sock"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(at); !os.IsNotExist(err) {
				t.Errorf("after its removal: %v", err)
			}
		})
	}
}

// TestListen_Replaced checks that a socket is not created outside of the allocation if its directory became a link.
func TestListen_Replaced(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	d, err := allocdir.Build(root, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tmp := filepath.Join(d.SharedPath(), allocdir.TmpName)
	if err := os.Remove(tmp); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, tmp); err != nil {
		t.Fatal(err)
	}
	if l, err := d.Listen(t.Context(), "s.sock"); err == nil {
		l.Close()
		t.Error("Listen() created a socket behind a link")
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) > 0 {
		t.Errorf("outside: %v, %v", files, err)
	}
}
