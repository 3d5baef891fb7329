package state_test

import (
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/internal/companion"
)

// TestMain makes the test program able to be the process that checks a file.
func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}
