package state

import (
	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad/codec"
)

// path is the path of a bucket, from the root.
type path [][]byte

// open returns the bucket, or nil if it does not exist.
func (p path) open(tx *bolt.Tx) *bolt.Bucket {
	b := tx.Bucket(p[0])
	for _, name := range p[1:] {
		if b == nil {
			return nil
		}
		b = b.Bucket(name)
	}
	return b
}

// create returns the bucket, and creates it if it does not exist.
func (p path) create(tx *bolt.Tx) (*bolt.Bucket, error) {
	b, err := tx.CreateBucketIfNotExists(p[0])
	for _, name := range p[1:] {
		if err != nil {
			return nil, err
		}
		b, err = b.CreateBucketIfNotExists(name)
	}
	return b, err
}

// putIn returns the write of one value.
func putIn(p path, key, val []byte) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		b, err := p.create(tx)
		if err != nil {
			return err
		}
		return b.Put(key, val)
	}
}

// value reads one value. It returns nil if the key does not exist.
func value[T any](db *DB, p path, key []byte) (*T, error) {
	v := new(T)
	var found bool
	err := db.bolt.View(func(tx *bolt.Tx) (err error) {
		found, err = get(p.open(tx), key, v)
		return err
	})
	if err != nil || !found {
		return nil, err
	}
	return v, nil
}

// get decodes b[key] into v and reports whether the key exists.
func get(b *bolt.Bucket, key []byte, v any) (bool, error) {
	if b == nil {
		return false, nil
	}
	raw := b.Get(key)
	if raw == nil {
		return false, nil
	}
	return true, codec.Decode(raw, v)
}
