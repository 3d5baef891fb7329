package state

import (
	"fmt"
	"time"
)

var vaultTokens = tokens[VaultToken]{bucket: []byte("vault_tokens"), product: "Vault"}

// VaultToken is a token of Vault that a login with the identity of a task made.
type VaultToken struct {
	ID        string // the accessor, or for a token without one a random ID
	Task      string
	Accessor  string // "" for a batch token
	Secret    string
	Namespace string
	Role      string // of the login
	Created   time.Time
	// Lease is the life that the login gave the token, 0 for one without an end. A renewal is not stored.
	Lease     time.Duration
	Renewable bool
	Batch     bool      // it can be neither renewed nor revoked
	Ended     time.Time // when the token was no longer needed, zero before
}

// Format implements fmt.Formatter. No verb prints the secret.
func (t VaultToken) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "vault token %s", t.ID) }

// PutVaultToken stores a token of an allocation.
func (db *DB) PutVaultToken(alloc string, t *VaultToken) error {
	return vaultTokens.store(db, alloc, t.ID, t)
}

// PutVaultTokenLater is PutVaultToken without waiting for the commit.
func (db *DB) PutVaultTokenLater(alloc string, t *VaultToken) {
	vaultTokens.storeLater(db, alloc, t.ID, t)
}

// DeleteVaultToken deletes a token. It does not wait for the commit.
func (db *DB) DeleteVaultToken(alloc, id string) { vaultTokens.remove(db, alloc, id) }

// VaultTokens returns the stored tokens of an allocation, or those of all allocations if alloc is "". Tokens that cannot be
// read are left out, and the error names them.
func (db *DB) VaultTokens(alloc string) (map[string][]*VaultToken, error) {
	return vaultTokens.list(db, alloc)
}
