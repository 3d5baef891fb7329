package safefs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A file that another holder has locked is locked as soon as that one closes it, or not within the time.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := open(), open()
	defer second.Close()
	if err := Lock(first, 0); err != nil {
		t.Fatalf("Lock() of a free file = %v", err)
	}
	if err := Lock(second, 3*lockPause); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("Lock() of a held file = %v, want EWOULDBLOCK", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- Lock(second, time.Minute) }()
	first.Close()
	if err := <-locked; err != nil {
		t.Errorf("Lock() of a file that is released = %v", err)
	}
}
