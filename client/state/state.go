// Package state stores the client state that survives a restart of the agent, in one bbolt
// file. It holds allocations, the state of their tasks and hooks, signed workload identities,
// and the node's identity and registration.
//
// Layout of <state_dir>/state.db (values are msgpack, codec.Encode):
//
//	node_identity/node_identity_state         {SignedIdentity}
//	node_identity/node_identity_renewal       {Asked}: a new identity was requested
//	node/node_registration                    {HasRegistered}
//	node/node_boot                            {ID}: boot ID of the last registration
//	nodemeta/meta                             metadata of the node: values by key, nil for a removed key
//	meta/version, meta/open_nomad             format versions, as text; see form.go
//	allocations/<id>/alloc                    {Alloc: the allocation as the servers sent it}
//	allocations/<id>/deploy_status            nomad.AllocDeploymentStatus
//	allocations/<id>/alloc_identities         []message.SignedWorkloadIdentity
//	allocations/<id>/task-<name>/local_state  LocalState
//	allocations/<id>/task-<name>/task_state   nomad.TaskState
//	check_results/<alloc id>_<check id>       message.CheckQueryResult
//	consul_tokens/<alloc id>_<accessor>       ConsulToken; builds without this bucket ignore it
//	vault_tokens/<alloc id>_<id>              VaultToken; builds without this bucket ignore it
//	csi_instances/<kind, plugin and alloc id> CSIInstance; builds without this bucket ignore it
//	host_volumes_to_create/<id>               message.ClientHostVolumeState
//	csi_mounts/<CSIMount.Key>                 CSIMount; builds without this bucket ignore it
//
// One goroutine writes. Each commit contains everything that is queued when it begins. Methods
// that write wait for their commit, with two exceptions. Methods ending in Later do not wait.
// Methods ending in WithNext do not start a commit, since that would delay a write that
// matters; the next write commits them. Writes of one caller are kept in order. Values are
// encoded before a method returns, unless its doc says otherwise, so the caller may modify them
// afterwards. Reads return the last commit.
//
// Beside the file, uncommitted/<id> is an empty file for each allocation that PutAllocWithNext has queued, until it is
// committed.
//
// Tasks cannot write to the files: their mode is 0600, in a directory of mode 0700.
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

// freelist is how bbolt keeps the free pages in memory.
const freelist = bolt.FreelistMapType

// lockTimeout limits how long Open waits for the lock of another agent.
const lockTimeout = time.Second

// ErrInUse is wrapped by Open if another agent has locked the database.
var ErrInUse = errors.New("in use by another agent")

// ErrCorrupt is wrapped by Open if the file is not a valid database. The file is unchanged.
var ErrCorrupt = errors.New("corrupt")

// ErrClosed is returned for writes after Close.
var ErrClosed = errors.New("client state database is closed")

// Config configures a DB.
type Config struct {
	Dir    string // <data_dir>/client, created if missing
	NoSync bool   // skip fsync: for -dev, where no state survives
	// AdoptNone marks allocations as lost if their processes were started by another build.
	// Without it, Open returns an error for such a file.
	AdoptNone bool
	Log       *slog.Logger
}

// DB is an open state database. Its methods may be called concurrently.
type DB struct {
	bolt        *bolt.DB
	w           *writer
	uncommitted string // the directory of mark
}

// Open opens or creates <dir>/state.db. It fails within seconds if another agent has locked the
// file, the file is corrupt, or its values have an unknown format. The file is then unchanged.
func Open(cfg Config) (*DB, error) {
	uncommitted := filepath.Join(cfg.Dir, uncommittedName)
	if err := os.MkdirAll(uncommitted, 0o700); err != nil {
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
	return &DB{bolt: b, w: newWriter(b, cfg.Log), uncommitted: uncommitted}, nil
}

// Close commits the queued writes and closes the file.
func (db *DB) Close() error {
	db.w.close()
	if err := db.bolt.Close(); err != nil {
		return fmt.Errorf("close client state database: %w", err)
	}
	return nil
}
