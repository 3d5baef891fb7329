// Command companion is the supervisor and the sandbox stage in one small static program. Package
// internal/companion embeds it into nomad and selects the entry by argv[0]. It must stay small (3
// MiB) and start fast, so it imports only those two. Run by hand, it prints a message and exits.
package main

import (
	"fmt"
	"os"

	"github.com/open-nomad/open-nomad/internal/companion"
	_ "github.com/open-nomad/open-nomad/internal/sandbox"          // entry "nomad-sandbox"
	_ "github.com/open-nomad/open-nomad/internal/supervise/server" // entry "nomad-supervise"
)

func init() { companion.Init() }

func main() {
	companion.Main()
	fmt.Fprintln(os.Stderr, "this program is run by the nomad agent, not by hand")
	os.Exit(2)
}
