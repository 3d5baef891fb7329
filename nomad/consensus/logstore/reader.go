package logstore

import (
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// Reader reads the log and the vote of a stopped server. It changes no file.
type Reader interface {
	// Bounds returns the first and the last index of the log, or 0 if it is empty.
	Bounds() (first, last uint64, err error)
	// Entries calls fn with the log entries from an index on, in order.
	Entries(from uint64, fn func(*raft.Log) error) error
	// Vote returns the server's term, and the term and candidate of its last vote.
	Vote() (term, votedIn uint64, votedFor string)
	Close() error
}

// OpenReader opens the log in a raft directory. The files stay locked against writers.
func OpenReader(raftDir, backend string) (Reader, error) {
	if backend != Bolt {
		return openWALReader(filepath.Join(raftDir, "wal"))
	}
	path := filepath.Join(raftDir, boltFile)
	log, err := openBolt(path, bbolt.Options{ReadOnly: true}, hclog.NewNullLogger())
	if err != nil {
		return nil, err
	}
	return boltReader{log, raftDir}, nil
}

// boltReader reads a log of Bolt.
type boltReader struct {
	log *boltLog
	dir string // the raft directory
}

// Bounds implements Reader.
func (r boltReader) Bounds() (first, last uint64, err error) {
	if first, err = r.log.FirstIndex(); err == nil {
		last, err = r.log.LastIndex()
	}
	return first, last, err
}

// Entries implements Reader.
func (r boltReader) Entries(from uint64, fn func(*raft.Log) error) error {
	first, last, err := r.Bounds()
	for i := max(from, first); err == nil && i <= last && i > 0; i++ {
		var e raft.Log
		if err = r.log.GetLog(i, &e); err != nil {
			return fmt.Errorf("%w: entry %d of %s: %w", ErrDamaged, i, r.dir, err)
		}
		err = fn(&e)
	}
	return err
}

// Vote implements Reader.
func (r boltReader) Vote() (term, votedIn uint64, votedFor string) {
	return vote(binary.BigEndian, func(key string) []byte {
		v, err := r.log.Get([]byte(key))
		if err != nil {
			return nil // the only error of an open database is a missing key
		}
		return v
	})
}

// Close implements Reader.
func (r boltReader) Close() error { return r.log.Close() }

// vote reads the vote from a stable store, which returns nil for a missing key.
func vote(order binary.ByteOrder, stable func(key string) []byte) (term, votedIn uint64, votedFor string) {
	number := func(key string) uint64 {
		if v := stable(key); len(v) == 8 {
			return order.Uint64(v)
		}
		return 0
	}
	return number(string(termKey)), number(keyVoteTerm), string(stable(keyVote))
}
