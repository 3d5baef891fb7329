// Package migratetoken makes the tokens with which a node reads the data of a finished allocation from another node. Servers
// send a token to the node of the next allocation, and the node with the data makes the same one.
package migratetoken

import (
	"crypto/subtle"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/blake2b"
)

// Token is the right to read the data of one finished allocation from its node. It prints
// as a placeholder.
type Token struct{ text string }

// New returns the token for an allocation on the node with the secret: the keyed
// BLAKE2b-512 hash of the allocation's ID.
func New(allocID, nodeSecret string) (Token, error) {
	if allocID == "" || nodeSecret == "" {
		return Token{}, fmt.Errorf("migrate token for allocation %q: the ID or the node's secret is missing", allocID)
	}
	h, err := blake2b.New512([]byte(nodeSecret))
	if err != nil {
		return Token{}, fmt.Errorf("migrate token for allocation %q: %w", allocID, err)
	}
	h.Write([]byte(allocID)) //nolint:errcheck // a hash never fails
	return Token{base64.URLEncoding.EncodeToString(h.Sum(nil))}, nil
}

// Reveal returns the text of the token, for the wire.
func (t Token) Reveal() string { return t.text }

// String implements fmt.Stringer.
func (t Token) String() string { return "<migrate token>" }

// Matches reports whether text is the token. It takes the same time for all texts of one length.
func (t Token) Matches(text string) bool {
	return t.text != "" && subtle.ConstantTimeCompare([]byte(t.text), []byte(text)) == 1
}
