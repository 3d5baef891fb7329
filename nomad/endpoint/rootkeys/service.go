// Package rootkeys answers the RPC methods of the root keys: it lists, rotates and deletes the
// keys that sign identities and encrypt variables.
//
// A new key is published to all reachable servers before it becomes active, so that no server
// rejects a token of another. Key material never passes through this package: nomad/keyring
// holds it, and state has it wrapped.
package rootkeys

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// Keyring manages signing keys. New keys are returned wrapped. Remove takes effect before the
// deletion is seen in state.
type Keyring interface {
	PublicKeys() []*rootkey.PublicKey
	NewRootKey(ctx context.Context, now time.Time) (*rootkey.Key, error)
	NewRSAKey(ctx context.Context, now time.Time) (*rootkey.Key, error)
	// AwaitActive waits until this server signs with the key.
	AwaitActive(ctx context.Context, kid string) error
	Remove(kid string)
	// Closed returns why a key is not open, or "" if it is open.
	Closed(kid string) string
}

// Config configures a Service.
type Config struct {
	Keyring Keyring
	// RotationThreshold is returned to clients that cache public keys.
	RotationThreshold time.Duration
}

// Service handles the RPC methods of root keys.
type Service struct {
	*handler.Core
	cfg Config
}

// New returns a Service.
func New(core *handler.Core, cfg Config) *Service { return &Service{Core: core, cfg: cfg} }
