package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// The keys of the vote, which Raft stores next to termKey.
const (
	keyVoteTerm = "LastVoteTerm"
	keyVote     = "LastVoteCand"
)

// boltFile is the log file of Bolt in the raft directory.
const boltFile = "raft.db"

// boltWait limits the wait for another program that has locked the file.
const boltWait = time.Second

// openBolt opens a log of Bolt, or creates it. With read-only options it changes
// nothing. It first reads every page with a key, because bbolt ends the process at a damaged
// page.
func openBolt(path string, opts bbolt.Options, log hclog.Logger) (s *boltLog, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if found := recover(); found != nil {
			s, err = nil, fmt.Errorf("%w: %s cannot be opened: %v", ErrDamaged, path, found)
		}
	}()
	opts.Timeout = boltWait
	if _, err := os.Lstat(path); err == nil {
		if err := walkBolt(path, opts.Timeout); err != nil {
			return nil, err
		}
	}
	store, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &opts, MsgpackUseNewTimeFormat: true})
	if err != nil {
		return nil, boltError(path, err)
	}
	return &boltLog{BoltStore: store, path: path, log: log, closing: make(chan struct{})}, nil
}

// boltLog is a log of Bolt that tolerates a failing disk. A failed write leaves nothing
// behind, so raft may continue. A failed write of the term is repeated, because raft would
// panic.
type boltLog struct {
	*raftboltdb.BoltStore
	path    string
	log     hclog.Logger
	ended   sync.Once
	closing chan struct{} // closed when all waits must end
	failing atomic.Pointer[error]
}

// StoreLog implements raft.LogStore.
func (b *boltLog) StoreLog(entry *raft.Log) error { return b.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (b *boltLog) StoreLogs(entries []*raft.Log) error {
	if err := b.BoltStore.StoreLogs(entries); err != nil {
		err = fmt.Errorf("write raft log %s: %w", b.path, err)
		b.failing.Store(&err)
		return err
	}
	b.failing.Store(nil)
	return nil
}

// Unwritable returns the error of the last write of entries, or nil if it succeeded.
func (b *boltLog) Unwritable() error {
	if err := b.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// SetUint64 implements raft.StableStore.
func (b *boltLog) SetUint64(key []byte, n uint64) error {
	return b.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// Set implements raft.StableStore. It waits for the disk like guardedLog.
func (b *boltLog) Set(key, value []byte) error {
	for {
		err := b.BoltStore.Set(key, value)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("write %s of the raft log %s: %w", key, b.path, err)
		b.log.Error("the raft log cannot be written", "err", err)
		select {
		case <-b.closing:
			if string(key) == string(termKey) {
				return nil
			}
			return err
		case <-time.After(10 * retryAfter):
		}
	}
}

// Interrupt ends all waits.
func (b *boltLog) Interrupt() { b.ended.Do(func() { close(b.closing) }) }

// Close closes the file.
func (b *boltLog) Close() error {
	b.Interrupt()
	return b.BoltStore.Close()
}

// walkBolt reads every key of a log.
func walkBolt(path string, wait time.Duration) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: wait})
	if err != nil {
		return boltError(path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		for _, name := range []string{"logs", "conf"} {
			bucket := tx.Bucket([]byte(name))
			if bucket == nil {
				return fmt.Errorf("%w: %s has no bucket %q", ErrDamaged, path, name)
			}
			if err := bucket.ForEach(func([]byte, []byte) error { return nil }); err != nil {
				return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// boltError translates an error from opening a bbolt file.
func boltError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("lock %s: %w", path, ErrInUse)
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("open raft log: %w", err)
	}
	return fmt.Errorf("%w: %s cannot be opened: %w", ErrDamaged, path, err)
}
