// Package testaudit serializes tests that use the host's audit switches, of which there is one set.
package testaudit

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/denials"
)

// Need skips the test if mode is not available. It holds the switches until t and its cleanups are
// over. Call it before starting anything that reads records.
func Need(t testing.TB, mode denials.Mode) {
	t.Helper()
	if err := denials.Available(mode); err != nil {
		t.Skip(err)
	}
	if err := os.MkdirAll(denials.DefaultDir, 0o700); err != nil {
		t.Skip(err)
	}
	lock, err := os.OpenFile(filepath.Join(denials.DefaultDir, "test"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Skip(err)
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
}
