// Package e2e tests the product as its users meet it: scripts under
// testdata/script run real commands against real agents, each started on free
// ports with a directory of its own. What a script may use beside the commands
// of testscript is listed in commands_test.go.
package e2e

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/internal/companion"
)

func TestMain(m *testing.M) {
	companion.Main()
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		os.Exit(probe(os.Args[2:]))
	}
	testscript.Main(m, map[string]func(){
		"nomad": func() { os.Exit(command.Main(os.Args[1:])) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		Setup:         setup,
		Cmds:          commands,
		Condition:     condition,
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}
