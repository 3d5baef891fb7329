package landlock_test

import (
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/memfd"
)

// TestInternal compares a memory file with files that have a path, also on a tmpfs.
func TestInternal(t *testing.T) {
	need(t, landlock.ABIFiles)
	memory, err := memfd.New("memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	shm, err := os.CreateTemp("/dev/shm", "landlock-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer shm.Close()
	if err := os.Remove(shm.Name()); err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for f, want := range map[*os.File]bool{memory: true, shm: false, null: false} {
		if got, err := landlock.Internal(int(f.Fd())); err != nil || got != want {
			t.Errorf("Internal(%s) = %t, %v, want %t", f.Name(), got, err, want)
		}
	}
	if _, err := landlock.Internal(-1); err == nil {
		t.Error("Internal(-1) = nil, want an error")
	}
}
