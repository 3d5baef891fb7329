package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TempDir returns a directory that is removed after the test. The supervisor of a killed agent uses
// it for two more seconds.
func TempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { RemoveAll(t, dir) })
	return dir
}

// RemoveAll removes a directory, and retries while processes still use it.
func RemoveAll(t *testing.T, dir string) {
	t.Helper()
	Succeeds(t, "remove "+dir, func() error { return os.RemoveAll(dir) })
}

// Mkdir creates a directory that tasks can pass through.
func Mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(name, 0o711); err != nil {
		t.Fatal(err)
	}
}

// WriteFile writes a file and fails the test on an error.
func WriteFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FileText waits until a file contains a line.
func FileText(t *testing.T, name string) string {
	t.Helper()
	var text []byte
	Within(t, Patience, "a line in "+name, func() bool {
		text, _ = os.ReadFile(name)
		return strings.HasSuffix(string(text), "\n")
	})
	return string(text)
}

// OutsideTmp returns a directory that tasks see, unlike the host's /tmp, and can pass through.
func OutsideTmp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "nomad-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveAll(t, dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// CopyProgram copies this program to a place that tasks can reach.
func CopyProgram(t *testing.T, dir string) string {
	t.Helper()
	at := filepath.Join(dir, "probe")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at); err == nil {
		return at
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return at
}

// Content returns the text of a file.
func Content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// Passable lets tasks pass through a test's temporary directory.
func Passable(t *testing.T, dir string) string {
	t.Helper()
	if err := errors.Join(os.Chmod(dir, 0o711), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
		t.Fatal(err)
	}
	return dir
}
