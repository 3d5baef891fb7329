package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// The log stores that a server can use.
const (
	BackendWAL  = "wal"
	BackendBolt = "boltdb"
)

// ErrTwoLogs means that a directory contains a log of each store.
var ErrTwoLogs = errors.New("there are two logs, raft.db and wal")

// StoredBackend returns the log store of the log in a server's directory, "" if it has none.
func StoredBackend(serverDir string) (string, error) {
	return backendOf(filepath.Join(serverDir, "raft"))
}

// backendOf returns the log store of the log in a raft directory, or "" if there is none.
func backendOf(raftDir string) (string, error) {
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
		return BackendBolt, nil
	case wal == nil:
		return BackendWAL, nil
	}
	return "", nil
}

// logStore holds the log and the vote.
type logStore interface {
	raft.LogStore
	raft.StableStore
	// interrupt ends all waits for a disk that cannot be written.
	interrupt()
	// unwritable returns why the log cannot be written at the moment, or nil.
	unwritable() error
	Close() error
}

// Backend configures the log store. The zero value means BackendWAL.
type Backend struct {
	// Name is BackendWAL or BackendBolt.
	Name string
	// NoFreelistSync makes writes of BackendBolt smaller and its opening slower.
	NoFreelistSync bool

	segment int              // size of new segments of BackendWAL; 0 is the default
	synced  func(dir string) // called with each directory that keep synced, or nil
}

func (b Backend) name() string {
	if b.Name == "" {
		return BackendWAL
	}
	return b.Name
}

// keep syncs the directories. BackendBolt has no directory wal.
func (b Backend) keep(dir string) error {
	if err := safefs.SyncDir(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if b.synced != nil {
		b.synced(dir)
	}
	return nil
}

// open opens the log in a raft directory. It creates the log if there is none.
func (b Backend) open(raftDir string, log hclog.Logger) (logStore, error) {
	switch b.name() {
	case BackendWAL:
		walDir := filepath.Join(raftDir, "wal")
		if err := os.MkdirAll(walDir, 0o700); err != nil {
			return nil, fmt.Errorf("create raft directory: %w", err)
		}
		logs, err := openLog(walDir, b.segment, log)
		if err != nil {
			return nil, err
		}
		return logs, nil
	case BackendBolt:
		logs, err := openBolt(filepath.Join(raftDir, boltFile), bbolt.Options{NoFreelistSync: b.NoFreelistSync}, log)
		if err != nil {
			return nil, err
		}
		return logs, nil
	}
	return nil, fmt.Errorf("unknown log store %q: use %s or %s", b.Name, BackendWAL, BackendBolt)
}
