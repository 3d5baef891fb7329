package endpoint_test

import (
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/internal/companion"
)

// TestMain also runs the programs that a client starts from its own binary.
func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}
