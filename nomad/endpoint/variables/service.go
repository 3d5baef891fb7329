// Package variables handles the RPC methods of variables and their locks. Items are encrypted before they are written to the
// Raft log, and are decrypted only for callers with read access. Every path is checked exactly as it is looked up.
//
// The timers of locks are in package locks, the encryption in package keyring. The package starts no goroutine.
package variables

import "github.com/open-nomad/open-nomad/nomad/endpoint/handler"

// Config configures a Service. All fields are required.
type Config struct {
	Locks   Locks
	Keyring Keyring
}

// Service handles the methods of variables.
type Service struct {
	*handler.Core
	cfg Config
}

// New returns a Service.
func New(core *handler.Core, cfg Config) *Service { return &Service{Core: core, cfg: cfg} }
