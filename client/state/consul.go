package state

import (
	"errors"
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad/codec"
)

// bucketConsul has one key for each token of Consul: <alloc id>_<accessor ID>. A token stays when its allocation is deleted,
// until it is logged out.
var bucketConsul = []byte("consul_tokens")

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

func consulKey(alloc, accessor string) []byte { return []byte(alloc + "_" + accessor) }

// PutConsulToken stores a token of an allocation.
func (db *DB) PutConsulToken(alloc string, t *ConsulToken) error {
	put, err := putConsul(alloc, t)
	if err != nil {
		return err
	}
	return db.w.put(put)
}

// PutConsulTokenLater is PutConsulToken without waiting for the commit.
func (db *DB) PutConsulTokenLater(alloc string, t *ConsulToken) {
	put, err := putConsul(alloc, t)
	if err != nil {
		db.w.log.Error("write client state", "alloc", alloc, "err", err)
		return
	}
	db.w.later(put)
}

func putConsul(alloc string, t *ConsulToken) (func(*bolt.Tx) error, error) {
	b, err := codec.Encode(t)
	if err != nil {
		return nil, fmt.Errorf("encode a token of Consul of allocation %s: %w", alloc, err)
	}
	return putIn(path{bucketConsul}, consulKey(alloc, t.Accessor), b), nil
}

// DeleteConsulToken deletes a token. It does not wait for the commit.
func (db *DB) DeleteConsulToken(alloc, accessor string) {
	db.w.later(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketConsul)
		if b == nil {
			return nil
		}
		return b.Delete(consulKey(alloc, accessor))
	})
}

// ConsulTokens returns the stored tokens of an allocation, or those of all allocations if alloc is "". Tokens that cannot be
// read are left out, and the error names them.
func (db *DB) ConsulTokens(alloc string) (map[string][]*ConsulToken, error) {
	out, errs := map[string][]*ConsulToken{}, []error(nil)
	err := db.bolt.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketConsul)
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for key, raw := c.Seek([]byte(alloc)); key != nil && strings.HasPrefix(string(key), alloc); key, raw = c.Next() {
			of, _, ok := strings.Cut(string(key), "_")
			if raw == nil || !ok || alloc != "" && of != alloc {
				continue // not of this version
			}
			t := &ConsulToken{}
			if err := codec.Decode(raw, t); err != nil {
				errs = append(errs, fmt.Errorf("read a token of Consul of allocation %s: %w", of, err))
				continue
			}
			out[of] = append(out[of], t)
		}
		return nil
	})
	return out, errors.Join(append(errs, err)...)
}
