package check

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// stderrOf returns what this process writes to standard error during run, also by loggers that were created before.
func stderrOf(t *testing.T, run func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before, err := unix.Dup(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup3(int(w.Fd()), 2, 0); err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		text <- string(b)
	}()
	run()
	if err := unix.Dup3(before, 2, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(before) //nolint:errcheck // a copy
	w.Close()
	return <-text
}
