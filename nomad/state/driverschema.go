package state

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// schemaPrefix begins the keys of the index rows that hold driver schemas in snapshots, which have no
// record type for them. The JSON of the schema follows the prefix. The value is the index of its last
// change.
const schemaPrefix = "driver_schema/"

var driverSchemas = &table.Table[nomad.DriverSchema]{
	Name: TableDriverSchemas,
	ID:   func(d *nomad.DriverSchema) table.Key { return table.KeyOf(d.Digest) },
}

// DriverSchema returns the schema with the digest, or nil if there is none.
func (s *Snapshot) DriverSchema(ws memdb.WatchSet, digest string) *nomad.DriverSchema {
	return driverSchemas.Get(s.tx, ws, table.KeyOf(digest))
}

// DriverSchemas returns every schema, by digest.
func (s *Snapshot) DriverSchemas(ws memdb.WatchSet) iter.Seq[*nomad.DriverSchema] {
	return driverSchemas.All(s.tx, ws)
}

// UpsertDriverSchemas stores the schemas that a node names and that are not stored yet.
func (s *Store) UpsertDriverSchemas(index uint64, req *message.DriverSchemaUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		n := nodes.Get(t, nil, table.KeyOf(req.NodeID))
		if n == nil {
			return apierror.ErrNodeNotFound
		}
		for _, d := range req.Schemas {
			if d == nil || !n.NamesSchema(d.Digest) || driverSchemas.Get(t, nil, table.KeyOf(d.Digest)) != nil {
				continue
			}
			stored := *d
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			driverSchemas.Put(t.Txn, &stored)
		}
		return nil
	})
}

// dropSchemas deletes those schemas of the digests that no node names.
func (t *txn) dropSchemas(digests []string) {
	for _, digest := range digests {
		d := driverSchemas.Get(t, nil, table.KeyOf(digest))
		if d != nil && !t.named(digest) {
			driverSchemas.Delete(t.Txn, d)
		}
	}
}

// named reports whether a node names the schema.
func (t *txn) named(digest string) bool {
	for n := range nodes.All(t, nil) {
		if n.NamesSchema(digest) {
			return true
		}
	}
	return false
}

// schemaRow returns the snapshot row of a schema.
func schemaRow(d *nomad.DriverSchema) *nomad.IndexEntry {
	text, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("state: bug: driver schema %s: %v", d.Digest, err))
	}
	return &nomad.IndexEntry{Key: schemaPrefix + string(text), Value: d.ModifyIndex}
}

// readSchema restores a schema from its JSON.
func (r *Restore) readSchema(text string) error {
	d := new(nomad.DriverSchema)
	if err := json.Unmarshal([]byte(text), d); err != nil {
		return fmt.Errorf("driver schema: %w", err)
	}
	return driverSchemas.Load(r.txn.Txn, d)
}
