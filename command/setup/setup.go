// Package setup implements the commands "setup consul" and "setup vault", which create the objects of these systems that
// let workloads log in.
//
//	objects ──missing?──▶ question ──▶ created in order
//	        ──present?──▶ question ──▶ deleted in reverse order (-destroy)
//
// A command talks to the other system only, with its environment, CONSUL_* or VAULT_*. Only "setup vault -check" asks an
// agent of this project. An object that exists is not changed, but what differs is printed. So a command can be repeated,
// also after a failure in the middle. The package has no state and starts no goroutine.
package setup

import "github.com/open-nomad/open-nomad/command/term"

// Commands lists the commands of this package.
func Commands() []term.Command { return []term.Command{consulCommand(), vaultCommand()} }
