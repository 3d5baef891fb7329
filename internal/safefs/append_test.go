package safefs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

func TestAppend(t *testing.T) {
	d, path, canary := inner(t)
	for _, text := range []string{"a", "b"} {
		f, err := d.Append("log", 0o640)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, text); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	if got, err := os.ReadFile(filepath.Join(path, "log")); string(got) != "ab" {
		t.Errorf("the file has %q, %v", got, err)
	}
	if err := errors.Join(os.Symlink(canary, filepath.Join(path, "link")), syscall.Mkfifo(filepath.Join(path, "pipe"), 0o600),
		os.Mkdir(filepath.Join(path, "dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "pipe", "dir", "..", "dir/x", ""} {
		if f, err := d.Append(name, 0o600); err == nil {
			f.Close()
			t.Errorf("Append(%q) succeeds", name)
		}
	}
	if got, _ := os.ReadFile(canary); string(got) != "host" {
		t.Errorf("canary = %q, want it untouched", got)
	}
}

func TestRename(t *testing.T) {
	d, path, _ := inner(t)
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Rename("a", "c"); err != nil {
		t.Error(err)
	}
	if err := d.Rename("c", "b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Rename() over a file = %v", err)
	}
	if err := d.Rename("c", "../c"); !errors.Is(err, safefs.ErrEscape) {
		t.Errorf("Rename() out of the directory = %v", err)
	}
	for name, want := range map[string]string{"b": "b", "c": "a"} {
		if got, err := os.ReadFile(filepath.Join(path, name)); string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
}
