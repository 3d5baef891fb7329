// Package testaudit keeps tests that turn the host's switches of auditing from each
// other: there is one set of them, whatever runs.
package testaudit

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/denials"
)

// Need skips where what mode reads can't be had, and holds the switches until t and what
// it has cleaned up are over. Call it before anything that reads is started.
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
