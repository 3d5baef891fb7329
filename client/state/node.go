package state

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

var (
	bucketNodeIdentity  = path{[]byte("node_identity")}
	keyNodeIdentity     = []byte("node_identity_state")
	bucketNode          = path{[]byte("node")}
	keyNodeRegistration = []byte("node_registration")
)

// nodeIdentity is the stored form of the node's token.
type nodeIdentity struct{ SignedIdentity string }

// PutNodeIdentity stores the node's identity; the token may be used once this returns.
func (db *DB) PutNodeIdentity(t nomad.Token) error {
	return db.putValue(bucketNodeIdentity, keyNodeIdentity, nodeIdentity{t.Reveal()})
}

// NodeIdentity returns the stored token, the zero Token when there is none.
func (db *DB) NodeIdentity() (nomad.Token, error) {
	v, err := value[nodeIdentity](db, bucketNodeIdentity, keyNodeIdentity)
	if err != nil {
		return nomad.Token{}, fmt.Errorf("read node identity: %w", err)
	}
	if v == nil {
		return nomad.Token{}, nil
	}
	return nomad.NewToken(v.SignedIdentity, ""), nil
}

// PutNodeRegistration stores whether the servers know this node.
func (db *DB) PutNodeRegistration(r *nomad.NodeRegistration) error {
	return db.putValue(bucketNode, keyNodeRegistration, r)
}

// NodeRegistration returns what PutNodeRegistration stored, nil when nothing was.
func (db *DB) NodeRegistration() (*nomad.NodeRegistration, error) {
	v, err := value[nomad.NodeRegistration](db, bucketNode, keyNodeRegistration)
	if err != nil {
		return nil, fmt.Errorf("read node registration: %w", err)
	}
	return v, nil
}

// putValue stores v under a bucket and waits.
func (db *DB) putValue(p path, key []byte, v any) error {
	b, err := nomad.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return db.w.put(putIn(p, key, b))
}
