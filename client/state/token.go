package state

import (
	"errors"
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad/codec"
)

// tokens is a bucket with a key for each token of a product: <alloc id>_<id of the token>. A token stays when its
// allocation is deleted, until it is logged out.
type tokens[T any] struct {
	bucket  []byte
	product string
}

func (b tokens[T]) key(alloc, id string) []byte { return []byte(alloc + "_" + id) }

// put returns the write of a token.
func (b tokens[T]) put(alloc, id string, t *T) (func(*bolt.Tx) error, error) {
	raw, err := codec.Encode(t)
	if err != nil {
		return nil, fmt.Errorf("encode a token of %s of allocation %s: %w", b.product, alloc, err)
	}
	return putIn(path{b.bucket}, b.key(alloc, id), raw), nil
}

// store stores a token and waits for the commit.
func (b tokens[T]) store(db *DB, alloc, id string, t *T) error {
	put, err := b.put(alloc, id, t)
	if err != nil {
		return err
	}
	return db.w.put(put)
}

// storeLater is store without waiting for the commit.
func (b tokens[T]) storeLater(db *DB, alloc, id string, t *T) {
	put, err := b.put(alloc, id, t)
	if err != nil {
		db.w.log.Error("write client state", "alloc", alloc, "err", err)
		return
	}
	db.w.later(put)
}

// remove deletes a token. It does not wait for the commit.
func (b tokens[T]) remove(db *DB, alloc, id string) {
	db.w.later(func(tx *bolt.Tx) error {
		in := tx.Bucket(b.bucket)
		if in == nil {
			return nil
		}
		return in.Delete(b.key(alloc, id))
	})
}

// list returns the stored tokens of an allocation, or those of all allocations if alloc is "". Tokens that cannot be read
// are left out, and the error names them.
func (b tokens[T]) list(db *DB, alloc string) (map[string][]*T, error) {
	out, errs := map[string][]*T{}, []error(nil)
	err := db.bolt.View(func(tx *bolt.Tx) error {
		in := tx.Bucket(b.bucket)
		if in == nil {
			return nil
		}
		c := in.Cursor()
		for key, raw := c.Seek([]byte(alloc)); key != nil && strings.HasPrefix(string(key), alloc); key, raw = c.Next() {
			of, _, ok := strings.Cut(string(key), "_")
			if raw == nil || !ok || alloc != "" && of != alloc {
				continue // not of this version
			}
			t := new(T)
			if err := codec.Decode(raw, t); err != nil {
				errs = append(errs, fmt.Errorf("read a token of %s of allocation %s: %w", b.product, of, err))
				continue
			}
			out[of] = append(out[of], t)
		}
		return nil
	})
	return out, errors.Join(append(errs, err)...)
}
