package state

import (
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Buckets and keys below allocations/.
var (
	bucketAllocs  = []byte("allocations")
	keyAlloc      = []byte("alloc")
	keyDeploy     = []byte("deploy_status")
	keyIdentities = []byte("alloc_identities")
)

// PutAlloc stores the allocation as sent by the servers.
func (db *DB) PutAlloc(a *nomad.Allocation) error {
	return db.putAllocValue(a.ID, keyAlloc, storedAlloc{a})
}

// PutAllocWithNext is PutAlloc in the commit of the next write. If the agent dies before that, the servers send the
// allocation again, or Uncommitted returns it. The allocation must not be modified.
func (db *DB) PutAllocWithNext(a *nomad.Allocation) {
	after := func() error { return db.Forget(a.ID) }
	if err := db.mark(a.ID); err != nil {
		db.w.log.Warn("write client state", "alloc", a.ID, "err", err)
		after = nil
	}
	db.w.withNext(putLater(a.ID, keyAlloc, storedAlloc{a}), after)
}

// DeleteAlloc deletes the allocation and everything below it.
func (db *DB) DeleteAlloc(id string) error { return db.w.put(deleteAlloc(id)) }

// DeleteAllocLater is DeleteAlloc without waiting for the commit.
func (db *DB) DeleteAllocLater(id string) { db.w.later(deleteAlloc(id)) }

func deleteAlloc(id string) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		if err := deleteCheckResults(tx, id); err != nil {
			return err
		}
		allocs := tx.Bucket(bucketAllocs)
		if allocs == nil || allocs.Bucket([]byte(id)) == nil {
			return nil
		}
		return allocs.DeleteBucket([]byte(id))
	}
}

// AllocError is the error of one stored allocation that cannot be read.
type AllocError struct {
	ID  string
	Err error
}

func (e *AllocError) Error() string { return fmt.Sprintf("read allocation %s: %v", e.ID, e.Err) }
func (e *AllocError) Unwrap() error { return e.Err }

// Allocs returns every stored allocation, sorted by ID. Each allocation that cannot be read
// gives an *AllocError.
func (db *DB) Allocs() (allocs []*nomad.Allocation, errs []error) {
	err := db.bolt.View(func(tx *bolt.Tx) error {
		all := tx.Bucket(bucketAllocs)
		if all == nil {
			return nil
		}
		return all.ForEachBucket(func(id []byte) error {
			a, err := readAlloc(all.Bucket(id), string(id))
			switch {
			case err != nil:
				errs = append(errs, &AllocError{ID: string(id), Err: err})
			case a != nil:
				allocs = append(allocs, a)
			}
			return nil
		})
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("read allocations: %w", err))
	}
	return allocs, errs
}

// PutDeployStatus stores the allocation's deployment health, as set by the client.
func (db *DB) PutDeployStatus(allocID string, s *nomad.AllocDeploymentStatus) error {
	return db.putAllocValue(allocID, keyDeploy, s)
}

// DeployStatus returns the stored health, or nil.
func (db *DB) DeployStatus(allocID string) (*nomad.AllocDeploymentStatus, error) {
	return allocValue[nomad.AllocDeploymentStatus](db, allocID, keyDeploy)
}

// PutIdentities stores the signed identities of the allocation's workloads.
func (db *DB) PutIdentities(allocID string, ids []*message.SignedWorkloadIdentity) error {
	return db.putAllocValue(allocID, keyIdentities, ids)
}

// Identities returns the stored identities. The slice is empty if there are none.
func (db *DB) Identities(allocID string) ([]*message.SignedWorkloadIdentity, error) {
	ids, err := allocValue[[]*message.SignedWorkloadIdentity](db, allocID, keyIdentities)
	if ids == nil {
		return nil, err
	}
	return *ids, err
}

// putAllocValue stores v under allocations/<id>/<key> and waits for the commit.
func (db *DB) putAllocValue(allocID string, key []byte, v any) error {
	b, err := codec.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %s of allocation %s: %w", key, allocID, err)
	}
	return db.w.put(putIn(path{bucketAllocs, []byte(allocID)}, key, b))
}

// putLater returns the write of allocations/<id>/<key>. v must not be modified: it is encoded in a goroutine that the
// commit waits for.
func putLater(allocID string, key []byte, v any) func(*bolt.Tx) error {
	encoded := sync.OnceValues(func() ([]byte, error) { return codec.Encode(v) })
	go encoded() //nolint:errcheck // the commit returns the error
	return func(tx *bolt.Tx) error {
		b, err := encoded()
		if err != nil {
			return fmt.Errorf("encode %s of allocation %s: %w", key, allocID, err)
		}
		return putIn(path{bucketAllocs, []byte(allocID)}, key, b)(tx)
	}
}

// allocValue reads allocations/<id>/<key>. It returns nil if the key does not exist.
func allocValue[T any](db *DB, allocID string, key []byte) (*T, error) {
	v, err := value[T](db, path{bucketAllocs, []byte(allocID)}, key)
	if err != nil {
		return nil, fmt.Errorf("read %s of allocation %s: %w", key, allocID, err)
	}
	return v, nil
}
