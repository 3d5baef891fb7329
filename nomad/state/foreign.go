package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// foreignRow is a snapshot record of a feature that this server does not implement. It is stored
// unchanged and written to the next snapshot, so that no data is lost.
type foreignRow struct {
	kind byte
	seq  uint64
	raw  codec.Raw
}

var foreign = &table.Table[foreignRow]{
	Name: "foreign_records",
	ID:   func(r *foreignRow) table.Key { return table.Key{r.kind}.Number(r.seq) },
}

// Foreign returns the number of records that are stored unchanged, by the name of their record
// type.
func (s *Snapshot) Foreign() map[string]int {
	names, counts := map[byte]string{}, map[string]int{}
	for _, rec := range Tables() {
		names[rec.Type] = rec.Name
	}
	for r := range foreign.All(s.tx, nil) {
		counts[names[r.kind]]++
	}
	return counts
}

// foreignRecord is a record type whose rows are stored unchanged.
func foreignRecord(kind byte, name string) Record {
	return Record{Type: kind, Name: name,
		rows: func(s *Snapshot) iter.Seq[any] {
			return func(yield func(any) bool) {
				for r := range foreign.By(s.tx, nil, table.Primary, table.Key{kind}) {
					if !yield(r.raw) {
						return
					}
				}
			}
		},
		read: func(r *Restore, decode func(any) error) error {
			r.seq++
			row := &foreignRow{kind: kind, seq: r.seq}
			if err := decode(&row.raw); err != nil {
				return err
			}
			foreign.Put(r.txn.Txn, row)
			return nil
		},
	}
}

// droppedRecord is a record type that older servers wrote and that is now ignored.
func droppedRecord(kind byte, name string) Record {
	return Record{Type: kind, Name: name, read: func(_ *Restore, decode func(any) error) error {
		var raw codec.Raw
		return decode(&raw)
	}}
}

// refusedRecord is a record type that makes a restore fail.
func refusedRecord(kind byte, name string) Record {
	return Record{Type: kind, Name: name, read: func(*Restore, func(any) error) error {
		return fmt.Errorf("records of type %d (%s) are from a beta version and cannot be restored", kind, name)
	}}
}
