package state

import (
	"fmt"
	"time"
)

var consulTokens = tokens[ConsulToken]{bucket: []byte("consul_tokens"), product: "Consul"}

// ConsulToken is a token of Consul that a login with an identity of a workload made.
type ConsulToken struct {
	Identity, Workload string // the name of the identity; the task, "" for a service of the group
	Service            string // the name in the claims of a service's identity
	Accessor           string
	Secret             string
	Created            time.Time
	Expires            time.Time // zero for a token without an end
	Ready              bool      // the agent of Consul has accepted the token
	Replaced           bool      // a newer token is in use
	Ended              time.Time // when the token was no longer needed, zero before
}

// Format implements fmt.Formatter. No verb prints the secret.
func (t ConsulToken) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "consul token %s", t.Accessor) }

// PutConsulToken stores a token of an allocation.
func (db *DB) PutConsulToken(alloc string, t *ConsulToken) error {
	return consulTokens.store(db, alloc, t.Accessor, t)
}

// PutConsulTokenLater is PutConsulToken without waiting for the commit.
func (db *DB) PutConsulTokenLater(alloc string, t *ConsulToken) {
	consulTokens.storeLater(db, alloc, t.Accessor, t)
}

// DeleteConsulToken deletes a token. It does not wait for the commit.
func (db *DB) DeleteConsulToken(alloc, accessor string) { consulTokens.remove(db, alloc, accessor) }

// ConsulTokens returns the stored tokens of an allocation, or those of all allocations if alloc is "". Tokens that cannot be
// read are left out, and the error names them.
func (db *DB) ConsulTokens(alloc string) (map[string][]*ConsulToken, error) {
	return consulTokens.list(db, alloc)
}
