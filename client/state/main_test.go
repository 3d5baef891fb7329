package state_test

import (
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/internal/companion"
)

// TestMain lets the test program run as the process that checks a file.
func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}
