package token

import (
	"context"
	"log/slog"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// Store keeps the tokens (state.DB).
type Store interface {
	PutVaultToken(alloc string, t *state.VaultToken) error
	PutVaultTokenLater(alloc string, t *state.VaultToken)
	DeleteVaultToken(alloc, id string)
	VaultTokens(alloc string) (map[string][]*state.VaultToken, error)
}

// NodeConfig configures a Node.
type NodeConfig struct {
	Cluster *vault.Cluster // that tasks use
	Store   Store
	Log     *slog.Logger
}

// Node holds what the Managers of a node share. Its methods may be called concurrently. A nil *Node is a node without Vault.
type Node struct {
	cfg NodeConfig
}

// NewNode returns a Node. The caller runs it.
func NewNode(cfg NodeConfig) *Node { return &Node{cfg: cfg} }

// Leftovers revokes the stored tokens of allocations that are not on this node, and those whose revocation has begun. It must
// be called before the first allocation runs.
func (n *Node) Leftovers(has func(alloc string) bool) {}

// Run revokes tokens until ctx ends. The next agent continues.
func (n *Node) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
