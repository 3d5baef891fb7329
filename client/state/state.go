// Package state keeps, in one bbolt file, what a client must not forget when
// its agent restarts: allocations, the state of their tasks and hooks, signed
// workload identities, the node's own identity and the state of drivers.
//
// Layout of <state_dir>/state.db (values are msgpack, nomad.Encode):
//
//	node_identity/node_identity_state         {SignedIdentity}
//	node/node_registration                    {HasRegistered}
//	allocations/<id>/alloc                    the allocation as the servers sent it
//	allocations/<id>/deploy_status            nomad.AllocDeploymentStatus
//	allocations/<id>/alloc_identities         []nomad.SignedWorkloadIdentity
//	allocations/<id>/task-<name>/local_state  LocalState
//	allocations/<id>/task-<name>/task_state   nomad.TaskState
//
// One goroutine writes. Whatever is queued when it turns to the disk goes into
// one commit; it never waits for more. Methods that write wait for their
// commit, those whose names end in Later do not; those that end in WithNext do not
// even begin one, since a commit under way would hold up a write that matters.
// Writes of one caller are kept in order. Values are encoded before a method returns: change them freely
// afterwards. Reads go to the last commit.
//
// Nobody reads here what a task could have written: the file is 0600 in a
// directory 0700.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// lockTimeout bounds how long Open waits for another agent to let go.
const lockTimeout = time.Second

// ErrInUse is wrapped by Open when another agent holds the database.
var ErrInUse = errors.New("in use by another agent")

// ErrCorrupt is wrapped by Open when the file is not a sound database. Nothing
// was changed.
var ErrCorrupt = errors.New("corrupt")

// ErrClosed is returned for writes after Close.
var ErrClosed = errors.New("client state database is closed")

// Config says where the database is and how much it may cost.
type Config struct {
	Dir    string // <data_dir>/client, made when absent
	NoSync bool   // skip fsync: for -dev, where nothing survives anyway
	Log    *slog.Logger
}

// DB is an open state database. Its methods may be called concurrently.
type DB struct {
	bolt *bolt.DB
	w    *writer
}

// Open opens or creates <dir>/state.db. It fails within seconds, without
// changing anything, when the file is held by another agent or is corrupt.
func Open(cfg Config) (*DB, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create client state directory: %w", err)
	}
	path := filepath.Join(cfg.Dir, "state.db")
	if err := check(path); err != nil {
		return nil, err
	}
	b, err := openFile(path, &bolt.Options{
		Timeout:      lockTimeout,
		NoSync:       cfg.NoSync,
		FreelistType: bolt.FreelistMapType,
	})
	if err != nil {
		return nil, err
	}
	return &DB{bolt: b, w: newWriter(b, cfg.Log)}, nil
}

// Close commits what is queued and lets go of the file.
func (db *DB) Close() error {
	db.w.close()
	if err := db.bolt.Close(); err != nil {
		return fmt.Errorf("close client state database: %w", err)
	}
	return nil
}

// check reads an existing file from one end to the other before anything may
// write to it.
func check(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open client state database: %w", err)
	}
	b, err := openFile(path, &bolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	defer b.Close() // nothing to lose: read only
	return guard(path, func() error {
		return b.View(func(tx *bolt.Tx) error {
			for err := range tx.Check() {
				return err
			}
			return nil
		})
	})
}

// openFile opens the bolt file and gives its faults one line each.
func openFile(path string, opts *bolt.Options) (b *bolt.DB, err error) {
	err = guard(path, func() error {
		b, err = bolt.Open(path, 0o600, opts)
		return err
	})
	return b, err
}

// guard runs fn on a file that may be damaged: bbolt panics on impossible pages
// and the processor faults on pages that a truncated file no longer has.
func guard(path string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("client state database %s is %w: %v", path, ErrCorrupt, r)
		}
	}()
	err = fn()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("client state database %s is %w", path, ErrInUse)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open client state database: %w", err)
	}
	return fmt.Errorf("client state database %s is %w: %w", path, ErrCorrupt, err)
}
