package attack_test

import (
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/internal/companion"
)

// TestMain runs the tests, the agent under test, and the processes that the agent starts.
func TestMain(m *testing.M) {
	companion.Main()
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		if k, ok := simulated(); ok {
			os.Exit(underShim(k))
		}
		os.Exit(command.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}
