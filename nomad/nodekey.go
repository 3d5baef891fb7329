package nomad

import (
	"crypto/sha256"
	"encoding/base64"
)

// KeyID returns a digest of the node's public key for logs, or "" without one.
func (n *Node) KeyID() string {
	if len(n.Key) == 0 {
		return ""
	}
	sum := sha256.Sum256(n.Key)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Holder returns a digest of the node's ID and key, or "" without a key.
func (n *Node) Holder() string {
	if len(n.Key) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte(n.ID), n.Key...))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
