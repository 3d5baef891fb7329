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
	if len(os.Args) > 1 && os.Args[1] == "holder" {
		os.Exit(holdToken(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "spiffe" {
		os.Exit(useSpiffe(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "signalled" {
		os.Exit(countAtSignal(os.Args[2:]))
	}
	if os.Getenv("NOMAD_ALLOC_ID") != "" { // in a task, this program is nomad
		os.Exit(command.Main(os.Args[1:]))
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
