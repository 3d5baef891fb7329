package harness

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/internal/companion"
)

// Main runs the tests of a package. The test binary is also nomad and its companion, when it is started under those
// names or in a task. With the name of a program as its first argument it is that program, and ends with its result.
func Main(m *testing.M, programs map[string]func(args []string) int) {
	companion.Main()
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		os.Exit(programs[os.Args[1]](os.Args[2:]))
	}
	if os.Getenv("NOMAD_ALLOC_ID") != "" { // in a task, this program is nomad
		os.Exit(command.Main(os.Args[1:]))
	}
	testscript.Main(m, map[string]func(){
		"nomad": func() { os.Exit(command.Main(os.Args[1:])) },
	})
}
