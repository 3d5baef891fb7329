package state

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/nomad"
)

// uncommittedName is a directory beside the database, with an empty file for each allocation that PutAllocWithNext has
// queued and no commit contains yet. An agent that is killed then may have created the allocation's directory already.
const uncommittedName = "uncommitted"

// mark creates the file of an allocation. Without it, an agent that is killed too early leaves a directory: no reason not
// to start.
func (db *DB) mark(id string) error {
	f, err := os.OpenFile(filepath.Join(db.uncommitted, id), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("mark an allocation as not committed: %w", err)
	}
	return f.Close()
}

// Forget removes the mark of an allocation that Uncommitted has returned.
func (db *DB) Forget(id string) error {
	if err := os.Remove(filepath.Join(db.uncommitted, id)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove the mark of an allocation: %w", err)
	}
	return nil
}

// Uncommitted returns the IDs of the allocations that PutAllocWithNext has queued and that no commit contains. After Open
// these are the allocations that the previous agent began and did not store. None of their tasks has started.
func (db *DB) Uncommitted() ([]string, error) {
	entries, err := os.ReadDir(db.uncommitted)
	if err != nil {
		return nil, fmt.Errorf("list allocations that are not committed: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if nomad.IsUUID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}
