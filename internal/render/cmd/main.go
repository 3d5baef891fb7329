// Command render renders the templates of tasks, in the confinement of each task. Package internal/sidecar embeds it into nomad.
// Run by hand, it prints a message and exits.
package main

import (
	"fmt"
	"os"

	"github.com/open-nomad/open-nomad/internal/companion"
	_ "github.com/open-nomad/open-nomad/internal/render/engine" // the entry
)

func main() {
	companion.Main()
	fmt.Fprintln(os.Stderr, "this program is run by the nomad agent, not by hand")
	os.Exit(2)
}
