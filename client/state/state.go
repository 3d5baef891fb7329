// Package state keeps, in one bbolt file, what a client must not forget when
// its agent restarts: allocations, the state of their tasks and hooks, signed
// workload identities, the node's own identity and the state of drivers.
//
// Layout of <state_dir>/state.db (values are msgpack, nomad.Encode):
//
//	node_identity/node_identity_state         {SignedIdentity}
//	node/node_registration                    {HasRegistered}
//	meta/version, meta/open_nomad             the form of the values, as text
//	allocations/<id>/alloc                    {Alloc: the allocation as the servers sent it}
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
	"log/slog"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// freelist is how bbolt keeps free pages in memory.
const freelist = bolt.FreelistMapType

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
	// AdoptNone marks allocations as lost whose processes another build started. Without it, Open
	// refuses a file with such allocations.
	AdoptNone bool
	Log       *slog.Logger
}

// DB is an open state database. Its methods may be called concurrently.
type DB struct {
	bolt *bolt.DB
	w    *writer
}

// Open opens or creates <dir>/state.db. It fails within seconds, without
// changing anything, when the file is held by another agent, is corrupt or has values that this
// version does not know.
func Open(cfg Config) (*DB, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create client state directory: %w", err)
	}
	path := filepath.Join(cfg.Dir, "state.db")
	if err := check(path, cfg.AdoptNone); err != nil {
		return nil, err
	}
	b, err := openFile(path, &bolt.Options{
		Timeout:      lockTimeout,
		NoSync:       cfg.NoSync,
		FreelistType: freelist,
	})
	if err != nil {
		return nil, err
	}
	if err := guard(path, func() error { return b.Update(convert) }); err != nil {
		if !errors.Is(err, ErrCorrupt) {
			err = corrupt(path, err)
		}
		return nil, errors.Join(err, b.Close())
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
