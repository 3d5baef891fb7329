package state

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

var (
	bucketNodeIdentity  = path{[]byte("node_identity")}
	keyNodeIdentity     = []byte("node_identity_state")
	bucketNode          = path{[]byte("node")}
	keyNodeRegistration = []byte("node_registration")
	keyRenewal          = []byte("node_identity_renewal")
	keyBoot             = []byte("node_boot")
	bucketNodeMeta      = path{[]byte("nodemeta")}
	keyNodeMeta         = []byte("meta")
)

// nodeIdentity is the stored form of the node's token.
type nodeIdentity struct{ SignedIdentity string }

// nodeBoot is the stored form of the machine's boot ID.
type nodeBoot struct{ ID string }

// renewal is the stored form of a request for a new identity.
type renewal struct{ Asked bool }

// PutNodeIdentity stores the node's token and clears a renewal request. The token may be used
// once it returns.
func (db *DB) PutNodeIdentity(t idtoken.Token) error {
	token, err := codec.Encode(nodeIdentity{t.Reveal()})
	if err != nil {
		return fmt.Errorf("encode node identity: %w", err)
	}
	got, err := codec.Encode(renewal{})
	if err != nil {
		return fmt.Errorf("encode node identity: %w", err)
	}
	return db.w.put(func(tx *bolt.Tx) error {
		return errors.Join(putIn(bucketNodeIdentity, keyNodeIdentity, token)(tx), putIn(bucketNodeIdentity, keyRenewal, got)(tx))
	})
}

// AskRenewal stores that the node requests a new identity, until one is stored.
func (db *DB) AskRenewal() error {
	return db.putValue(bucketNodeIdentity, keyRenewal, renewal{true})
}

// RenewalAsked reports whether AskRenewal was called since the last PutNodeIdentity.
func (db *DB) RenewalAsked() (bool, error) {
	v, err := value[renewal](db, bucketNodeIdentity, keyRenewal)
	if err != nil {
		return false, fmt.Errorf("read renewal request of the node identity: %w", err)
	}
	return v != nil && v.Asked, nil
}

// PutBoot stores the boot ID with which the node was last registered.
func (db *DB) PutBoot(id string) error { return db.putValue(bucketNode, keyBoot, nodeBoot{id}) }

// Boot returns the stored boot ID, or "".
func (db *DB) Boot() (string, error) {
	v, err := value[nodeBoot](db, bucketNode, keyBoot)
	if err != nil || v == nil {
		return "", err
	}
	return v.ID, nil
}

// NodeIdentity returns the stored token, or the zero Token.
func (db *DB) NodeIdentity() (idtoken.Token, error) {
	v, err := value[nodeIdentity](db, bucketNodeIdentity, keyNodeIdentity)
	if err != nil {
		return idtoken.Token{}, fmt.Errorf("read node identity: %w", err)
	}
	if v == nil {
		return idtoken.Token{}, nil
	}
	return idtoken.New(v.SignedIdentity, ""), nil
}

// PutNodeRegistration stores whether the servers have accepted this node.
func (db *DB) PutNodeRegistration(r *nomad.NodeRegistration) error {
	return db.putValue(bucketNode, keyNodeRegistration, r)
}

// NodeRegistration returns the stored registration, or nil.
func (db *DB) NodeRegistration() (*nomad.NodeRegistration, error) {
	v, err := value[nomad.NodeRegistration](db, bucketNode, keyNodeRegistration)
	if err != nil {
		return nil, fmt.Errorf("read node registration: %w", err)
	}
	return v, nil
}

// PutNodeMeta stores the metadata that was set while an agent ran. A nil value removes a key of
// the configuration.
func (db *DB) PutNodeMeta(meta map[string]*string) error {
	return db.putValue(bucketNodeMeta, keyNodeMeta, meta)
}

// NodeMeta returns the stored metadata, or nil.
func (db *DB) NodeMeta() (map[string]*string, error) {
	v, err := value[map[string]*string](db, bucketNodeMeta, keyNodeMeta)
	if err != nil {
		return nil, fmt.Errorf("read node metadata: %w", err)
	}
	if v == nil {
		return nil, nil
	}
	return *v, nil
}

// putValue stores v in a bucket and waits for the commit.
func (db *DB) putValue(p path, key []byte, v any) error {
	b, err := codec.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return db.w.put(putIn(p, key, b))
}
