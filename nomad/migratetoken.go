package nomad

import (
	"crypto/subtle"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/blake2b"
)

// MigrateToken is the right to read the data of one finished allocation from its node. It prints
// as a placeholder.
type MigrateToken struct{ text string }

// NewMigrateToken returns the token for an allocation on the node with the secret: the keyed
// BLAKE2b-512 hash of the allocation's ID.
func NewMigrateToken(allocID, nodeSecret string) (MigrateToken, error) {
	if allocID == "" || nodeSecret == "" {
		return MigrateToken{}, fmt.Errorf("migrate token for allocation %q: the ID or the node's secret is missing", allocID)
	}
	h, err := blake2b.New512([]byte(nodeSecret))
	if err != nil {
		return MigrateToken{}, fmt.Errorf("migrate token for allocation %q: %w", allocID, err)
	}
	h.Write([]byte(allocID)) //nolint:errcheck // a hash never fails
	return MigrateToken{base64.URLEncoding.EncodeToString(h.Sum(nil))}, nil
}

// Reveal returns the text of the token, for the wire.
func (t MigrateToken) Reveal() string { return t.text }

// String implements fmt.Stringer.
func (t MigrateToken) String() string { return "<migrate token>" }

// Matches reports whether text is the token. It takes the same time for all texts of one length.
func (t MigrateToken) Matches(text string) bool {
	return t.text != "" && subtle.ConstantTimeCompare([]byte(t.text), []byte(text)) == 1
}
