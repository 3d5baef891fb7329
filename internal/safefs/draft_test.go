package safefs_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

func TestDraft(t *testing.T) {
	path := t.TempDir()
	dir, err := safefs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	attributes := safefs.File{Mode: 0o640, UID: -1, GID: -1}
	large := bytes.Repeat([]byte("0123456789abcdef"), 4096) // two buffers of the comparison
	draft := func(content []byte) *safefs.Draft {
		t.Helper()
		w, err := dir.Draft()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		return w
	}
	put := func(content []byte, mode fs.FileMode) func() error {
		return func() error {
			if err := os.WriteFile(filepath.Join(path, "f"), content, mode); err != nil {
				return err
			}
			return os.Chmod(filepath.Join(path, "f"), mode)
		}
	}
	for name, c := range map[string]struct {
		content []byte
		there   func() error
		same    bool
	}{
		"nothing":          {nil, func() error { return nil }, false},
		"same":             {[]byte("x"), put([]byte("x"), 0o640), true},
		"both empty":       {nil, put(nil, 0o640), true},
		"large":            {large, put(large, 0o640), true},
		"longer":           {large, put(append(bytes.Clone(large), 'x'), 0o640), false},
		"longer by one":    {[]byte("x"), put([]byte("xy"), 0o640), false},
		"shorter":          {large, put(large[:len(large)-1], 0o640), false},
		"other":            {[]byte("x"), put([]byte("y"), 0o640), false},
		"other at the end": {large, put(append(bytes.Clone(large[:len(large)-1]), 'x'), 0o640), false},
		"other mode":       {[]byte("x"), put([]byte("x"), 0o600), false},
		"setuid":           {[]byte("x"), put([]byte("x"), 0o640|fs.ModeSetuid), false},
		"a link to the same": {[]byte("x"), func() error {
			if err := os.WriteFile(filepath.Join(path, "target"), []byte("x"), 0o640); err != nil {
				return err
			}
			return os.Symlink("target", filepath.Join(path, "f"))
		}, false},
		"a directory": {nil, func() error { return os.Mkdir(filepath.Join(path, "f"), 0o640) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer os.Remove(filepath.Join(path, "f"))
			if err := c.there(); err != nil {
				t.Fatal(err)
			}
			w := draft(c.content)
			defer w.Discard()
			if same, err := w.Same("f", attributes); same != c.same || err != nil {
				t.Errorf("Same() = %t, %v, want %t", same, err, c.same)
			}
			if name == "a directory" {
				if err := w.Commit("f", attributes); err == nil {
					t.Error("Commit() over a directory = nil")
				}
				return
			}
			if err := w.Commit("f", attributes); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(filepath.Join(path, "f"))
			if err != nil || info.Mode() != 0o640 || info.Size() != int64(len(c.content)) {
				t.Errorf("committed %v, %v", info, err)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(path, "target")); err != nil || string(text) != "x" {
		t.Errorf("the target of the replaced link has %q, %v", text, err)
	}
	draft([]byte("x")).Discard()
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v, want the target only", entries, err)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "../x"} {
		w := draft(nil)
		if err := w.Commit(bad, attributes); err == nil {
			t.Errorf("Commit(%q) = nil", bad)
		}
		w.Discard()
	}
}
