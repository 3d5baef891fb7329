package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

// Built returns the absolute path of bin/nomad, which make builds, for the tests of a package directly below e2e. It
// ends the test without it.
func Built(t testing.TB) string {
	t.Helper()
	bin, err := filepath.Abs("../../bin/nomad")
	if err == nil {
		_, err = os.Stat(bin)
	}
	if err != nil {
		t.Fatalf("no program to test (make build): %v", err)
	}
	return bin
}
