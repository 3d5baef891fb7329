package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"
)

// The log stores that a server can use.
const (
	WAL  = "wal"
	Bolt = "boltdb"
)

// Errors about a log.
var (
	// ErrDamaged means that the log differs from what was written.
	ErrDamaged = errors.New("raft log is damaged")
	// ErrInUse means that another server has locked the log or its directory.
	ErrInUse = errors.New("directory is in use by another server")
	// ErrTwoLogs means that a directory contains a log of each store.
	ErrTwoLogs = errors.New("there are two logs, raft.db and wal")
)

// Stored returns the log store of the log in a raft directory, or "" if there is none. It returns an ErrTwoLogs if
// there is one of each.
func Stored(raftDir string) (string, error) {
	_, bolt := os.Lstat(filepath.Join(raftDir, boltFile))
	_, wal := os.Lstat(filepath.Join(raftDir, "wal", metadb.FileName))
	if segments, _ := filepath.Glob(filepath.Join(raftDir, "wal", "*.wal")); len(segments) > 0 {
		wal = nil // its index is missing; opening it reports the error
	}
	for _, err := range []error{bolt, wal} {
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("look for the raft log: %w", err)
		}
	}
	switch {
	case bolt == nil && wal == nil:
		return "", fmt.Errorf("%s: %w: %s", raftDir, ErrTwoLogs, olderLog(raftDir))
	case bolt == nil:
		return Bolt, nil
	case wal == nil:
		return WAL, nil
	}
	return "", nil
}

// Store holds the log and the vote of a server.
type Store interface {
	raft.LogStore
	raft.StableStore
	// Interrupt ends all waits for a disk that cannot be written.
	Interrupt()
	// Unwritable returns why the log cannot be written at the moment, or nil.
	Unwritable() error
	Close() error
}

// Backend configures the log store. The zero value means WAL.
type Backend struct {
	// Name is WAL or Bolt.
	Name string
	// NoFreelistSync makes writes of Bolt smaller and its opening slower.
	NoFreelistSync bool

	// SegmentSize is the size of new segments of WAL, in bytes. 0 means 64 MiB.
	SegmentSize int
}

// Kind returns the name of the log store.
func (b Backend) Kind() string {
	if b.Name == "" {
		return WAL
	}
	return b.Name
}

// Open opens the log in a raft directory. It creates the log if there is none.
func (b Backend) Open(raftDir string, log hclog.Logger) (Store, error) {
	switch b.Kind() {
	case WAL:
		walDir := filepath.Join(raftDir, "wal")
		if err := os.MkdirAll(walDir, 0o700); err != nil {
			return nil, fmt.Errorf("create raft directory: %w", err)
		}
		logs, err := openLog(walDir, b.SegmentSize, log)
		if err != nil {
			return nil, err
		}
		return logs, nil
	case Bolt:
		logs, err := openBolt(filepath.Join(raftDir, boltFile), bbolt.Options{NoFreelistSync: b.NoFreelistSync}, log)
		if err != nil {
			return nil, err
		}
		return logs, nil
	}
	return nil, fmt.Errorf("unknown log store %q: use %s or %s", b.Name, WAL, Bolt)
}
