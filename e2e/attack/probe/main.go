// The runtime would keep files of its control group open, and one of the operations looks for open
// files:
//go:debug containermaxprocs=0

// Command probe runs package attack as a task. It is small and static, so that a sandbox has to
// grant it nothing but itself.
package main

import (
	"os"

	"github.com/open-nomad/open-nomad/e2e/attack"
)

func main() { os.Exit(attack.Main(os.Args[1:])) }
