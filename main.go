// Command nomad is open-nomad: agent and command line in one program. It only
// chooses what to be: the companion (supervisor and sandbox stage), when it was
// started as that, or a command of package command.
package main

import (
	"os"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/internal/companion"
)

func main() {
	companion.Main()
	os.Exit(command.Main(os.Args[1:]))
}
