package state

import (
	"bytes"
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// bucketChecks has one key for each check of an allocation: <alloc id>_<check id>.
var bucketChecks = []byte("check_results")

func checkKey(alloc string, id message.CheckID) []byte { return []byte(alloc + "_" + string(id)) }

// PutCheckResult stores the latest result of a check. It does not wait for the commit.
func (db *DB) PutCheckResult(alloc string, r *message.CheckQueryResult) {
	b, err := codec.Encode(r)
	if err != nil {
		db.w.log.Error("encode the result of a check", "alloc", alloc, "err", err)
		return
	}
	db.w.later(putIn(path{bucketChecks}, checkKey(alloc, r.ID), b))
}

// DeleteCheckResults deletes results of checks. It does not wait for the commit.
func (db *DB) DeleteCheckResults(alloc string, ids []message.CheckID) {
	db.w.later(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketChecks)
		if b == nil {
			return nil
		}
		for _, id := range ids {
			if err := b.Delete(checkKey(alloc, id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteCheckResults deletes all results of an allocation.
func deleteCheckResults(tx *bolt.Tx, alloc string) error {
	b := tx.Bucket(bucketChecks)
	if b == nil {
		return nil
	}
	var keys [][]byte
	prefix := checkKey(alloc, "")
	c := b.Cursor()
	for key, val := c.Seek(prefix); val != nil && bytes.HasPrefix(key, prefix); key, val = c.Next() {
		keys = append(keys, key)
	}
	for _, key := range keys {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// CheckResults returns the stored results by allocation.
func (db *DB) CheckResults() (map[string][]*message.CheckQueryResult, error) {
	out := map[string][]*message.CheckQueryResult{}
	err := db.bolt.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketChecks)
		if b == nil {
			return nil
		}
		return b.ForEach(func(key, raw []byte) error {
			alloc, id, ok := strings.Cut(string(key), "_")
			if raw == nil || !ok {
				return nil // not of this version
			}
			r := &message.CheckQueryResult{}
			if err := codec.Decode(raw, r); err != nil {
				return fmt.Errorf("result of check %s of allocation %s: %w", id, alloc, err)
			}
			r.ID = message.CheckID(id)
			out[alloc] = append(out[alloc], r)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read check results: %w", err)
	}
	return out, nil
}
