package state

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
)

var (
	bucketNodeIdentity  = path{[]byte("node_identity")}
	keyNodeIdentity     = []byte("node_identity_state")
	bucketNode          = path{[]byte("node")}
	keyNodeRegistration = []byte("node_registration")
	keyRenewal          = []byte("node_identity_renewal")
	keyBoot             = []byte("node_boot")
)

// nodeIdentity is the stored form of the node's token.
type nodeIdentity struct{ SignedIdentity string }

// nodeBoot is the stored form of the boot of the machine.
type nodeBoot struct{ ID string }

// renewal says that a new identity was asked for.
type renewal struct{ Asked bool }

// PutNodeIdentity stores the node's identity; the token may be used once this
// returns. Whoever asked for a new one has it.
func (db *DB) PutNodeIdentity(t nomad.Token) error {
	token, err := nomad.Encode(nodeIdentity{t.Reveal()})
	if err != nil {
		return fmt.Errorf("encode node identity: %w", err)
	}
	got, err := nomad.Encode(renewal{})
	if err != nil {
		return fmt.Errorf("encode node identity: %w", err)
	}
	return db.w.put(func(tx *bolt.Tx) error {
		return errors.Join(putIn(bucketNodeIdentity, keyNodeIdentity, token)(tx), putIn(bucketNodeIdentity, keyRenewal, got)(tx))
	})
}

// AskRenewal stores that the node is to ask for a new identity, until one is put.
func (db *DB) AskRenewal() error {
	return db.putValue(bucketNodeIdentity, keyRenewal, renewal{true})
}

// RenewalAsked says whether AskRenewal was called since an identity was put.
func (db *DB) RenewalAsked() (bool, error) {
	v, err := value[renewal](db, bucketNodeIdentity, keyRenewal)
	if err != nil {
		return false, fmt.Errorf("read whether a new node identity was asked for: %w", err)
	}
	return v != nil && v.Asked, nil
}

// PutBoot stores the boot of the machine in which the node was last known to the
// servers.
func (db *DB) PutBoot(id string) error { return db.putValue(bucketNode, keyBoot, nodeBoot{id}) }

// Boot returns what PutBoot stored, "" when nothing was.
func (db *DB) Boot() (string, error) {
	v, err := value[nodeBoot](db, bucketNode, keyBoot)
	if err != nil || v == nil {
		return "", err
	}
	return v.ID, nil
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
